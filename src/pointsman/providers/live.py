"""The providers of the configuration in force: opened anew when `models.yaml` changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from pointsman.providers.http_provider import Surroundings
from pointsman.providers.port import Answer, Deadlines, Outgoing, Provider
from pointsman.providers.registry import Providers, open_providers
from pointsman.turns.registry.models import ModelsFile

LINGER_S = 600.0
"""How long calls that began before a change may take to end."""


class Shared:
    """A provider that outlives the configuration: closing the others leaves it open."""

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self.dialects = provider.dialects
        self._provider = provider

    async def send(self, outgoing: Outgoing, deadlines: Deadlines) -> Answer:
        """Make one call."""
        return await self._provider.send(outgoing, deadlines)

    async def close(self) -> None:
        """Leave it open."""


class LiveProviders:
    """Who answers for which model, now."""

    def __init__(
        self,
        home: Path,
        models: ModelsFile,
        embedded: Provider,
        surroundings: Surroundings = Surroundings(),  # noqa: B008 - it is frozen
    ) -> None:
        self._home = home
        self._embedded = embedded
        self._surroundings = surroundings
        self._models = models
        self._providers = self._open(models)
        self._old: set[asyncio.Task[None]] = set()
        self.listener: Callable[[ModelsFile], None] | None = None
        """Told when another configuration is in force."""

    def of(self, model: str, models: ModelsFile) -> tuple[Provider, str]:
        """Give the provider of a model and the name it has there, by the file in force."""
        if models is not self._models:
            self._change_to(models)
        return self._providers.of(model)

    async def close(self) -> None:
        """Let go of every connection and process."""
        for task in tuple(self._old):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._providers.close()
        await self._embedded.close()

    def _open(self, models: ModelsFile) -> Providers:
        embedded = Shared(self._embedded)
        return open_providers(
            models, self._home, embedded=embedded, surroundings=self._surroundings
        )

    def _change_to(self, models: ModelsFile) -> None:
        if models == self._models:
            self._models = models
            return
        old, self._providers, self._models = self._providers, self._open(models), models
        if self.listener is not None:
            self.listener(models)
        task = asyncio.get_running_loop().create_task(_closed_later(old))
        self._old.add(task)
        task.add_done_callback(self._old.discard)


async def _closed_later(providers: Providers) -> None:
    try:
        await asyncio.sleep(LINGER_S)
    finally:
        await providers.close()
