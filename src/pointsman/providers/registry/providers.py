"""The providers of a home, opened from its `models.yaml`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.providers.deployments import DeployedModel, ModelPlace
from pointsman.providers.dialects.generation import is_claude
from pointsman.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.http.provider import HttpProvider, ProviderEnvironment
from pointsman.providers.login import OpenLogin
from pointsman.providers.logins.aws import AwsLogin
from pointsman.providers.logins.google import google_login
from pointsman.providers.logins.tokens import entra_login
from pointsman.providers.port import (
    Deadlines,
    Dialect,
    ModelProvider,
    NotConfigured,
    Outgoing,
    UpstreamAnswer,
)
from pointsman.providers.vendors import vendor_of
from pointsman.storage.policies.secrets import is_forbidden
from pointsman.turns.registry.models import (
    EMBEDDED_PROVIDER,
    ModelsFile,
    model_id,
    places_of,
    provider_of,
)
from pointsman.turns.registry.models import Provider as Configured

_CLAUDE: Final = "/claude"
"""Behind the name of a provider that speaks to Claude in another format than to the others."""


class Providers:
    """Who answers for which model."""

    def __init__(
        self,
        providers: Mapping[str, ModelProvider],
        deployed: Mapping[str, ModelProvider] = MappingProxyType({}),
    ) -> None:
        self._providers = dict(providers)
        self._deployed = deployed
        self.found: dict[str, tuple[ModelProvider, str]] = {}
        """Models looked up before; all of the registry, so they are few."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._providers)

    def by_name(self, name: str) -> ModelProvider:
        """Return a provider by its name."""
        try:
            return self._providers[name]
        except KeyError:
            raise NotConfigured(f"there is no provider `{name}`") from None

    def of(self, model: str) -> tuple[ModelProvider, str]:
        """Return the provider of a model and the name that the model has there."""
        found = self.found.get(model)
        if found is None:
            name, _colon, upstream_name = model_id(model).partition(":")
            provider = self._deployed.get(model_id(model)) or self.at(name, upstream_name)
            found = self.found[model] = (provider, upstream_name)
        return found

    def at(self, name: str, model: str) -> ModelProvider:
        """Return the provider of this name for a model by its name there."""
        own = name + _CLAUDE
        return self.by_name(own if is_claude(model) and own in self._providers else name)

    def warm(self, deadlines: Deadlines) -> None:
        """Begin to open a connection to each provider, if the settings say so."""
        for provider in self._providers.values():
            if isinstance(provider, HttpProvider):
                provider.warm(deadlines)

    async def close(self) -> None:
        """Let go of every connection and process."""
        for provider in self._providers.values():
            await provider.close()


def open_providers(  # noqa: PLR0913 - the settings of all providers
    models: ModelsFile,
    home: Path,
    *,
    embedded: ModelProvider | None = None,
    allow_private: frozenset[str] = frozenset(),
    dialects: Mapping[str, tuple[Dialect, ...]] | None = None,
    pool: PoolSettings = PoolSettings(),  # noqa: B008 - it is frozen
    surroundings: ProviderEnvironment = ProviderEnvironment(),  # noqa: B008 - it is frozen
) -> Providers:
    """Open the providers of a home; nothing is connected and no secret is read before a call.

    `allow_private` names those whose host name may lead to a private address, `dialects` those
    of a provider beyond its kind's own.
    """
    opened: dict[str, ModelProvider] = {} if embedded is None else {EMBEDDED_PROVIDER: embedded}
    for name, configured in models.providers.items():
        if configured.kind == "embedded":
            own = _gguf(name, configured, models, home) if configured.path else embedded
            if own is not None:
                opened[name] = own
            continue
        try:
            is_private = pool.allow_private or configured.allow_private or name in allow_private
            own_pool = replace(
                pool, allow_private=is_private, certificate=_certificate(configured, home)
            )
            spoken = {name: (dialects or {}).get(name, ()) or configured.speaks}
            if configured.kind == "vertex":
                spoken = {name: ("gemini",), name + _CLAUDE: ("messages",)}
            for place, each in spoken.items():
                opened[place] = HttpProvider(
                    name,
                    vendor_of(configured),
                    configured,
                    home,
                    dialects=each,
                    pool=own_pool,
                    surroundings=surroundings,
                    login=_open_login(name, configured, home, pool, surroundings),
                )
        except InputError as error:
            raise InputError(
                error.message, where=f"models.yaml: providers.{name}", hint=error.hint
            ) from None
    return Providers(opened, _models_of_places(models, Providers(opened), surroundings))


def _certificate(configured: Configured, home: Path) -> Path | None:
    ref = configured.client_certificate
    if ref is None:
        return None
    if is_forbidden(ref, home):
        raise InputError(f"no provider may be given the file `{ref.file}`")
    return home / Path(ref.file).expanduser()


def _models_of_places(
    models: ModelsFile, providers: Providers, outside: ProviderEnvironment
) -> dict[str, ModelProvider]:
    """Return the models that several places serve."""
    deployed: dict[str, ModelProvider] = {}
    for name, model in models.models.items():
        places = [
            ModelPlace(found, each.name, each.weight, each.rpm, each.tpm)
            for each in places_of(name, model)
            if isinstance(found := providers.at(each.provider, each.name), HttpProvider)
        ]
        if places:
            own = provider_of(model_id(name))
            deployed[model_id(name)] = DeployedModel(own, places, outside.monotonic_s)
    return deployed


def _open_login(
    name: str, configured: Configured, home: Path, pool: PoolSettings, outside: ProviderEnvironment
) -> OpenLogin | None:
    login = configured.login
    if login is None:
        return None
    if configured.kind == "vertex":
        return google_login(name, login, home, pool, outside)
    if configured.kind == "bedrock":
        return AwsLogin(name, login, configured.region, home, pool, outside)
    return entra_login(name, login, home, pool, outside)


def _gguf(name: str, configured: Configured, models: ModelsFile, home: Path) -> ModelProvider:
    """Return the provider of a file on this machine; it serves the first model named after it."""
    own = [each for each in models.models if provider_of(model_id(each)) == name]
    model = model_id(own[0]) if own else name
    most = models.models[own[0]].capabilities.max_context_tokens if own else None
    settings = EmbeddedSettings() if most is None else EmbeddedSettings(context_tokens=most)
    path = home / Path(configured.path).expanduser()
    return EmbeddedProvider(name, model=model, path=path, settings=settings)


LINGER_S = 600.0
"""How long calls that began before a change may take to end."""


class SharedProvider:
    """A provider that outlives the configuration: closing the others leaves it open."""

    def __init__(self, provider: ModelProvider) -> None:
        self.name = provider.name
        self.dialects = provider.dialects
        self._provider = provider

    async def send(self, outgoing: Outgoing, deadlines: Deadlines) -> UpstreamAnswer:
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
        embedded: ModelProvider,
        surroundings: ProviderEnvironment = ProviderEnvironment(),  # noqa: B008 - it is frozen
        pool: PoolSettings = PoolSettings(),  # noqa: B008 - it is frozen
    ) -> None:
        self._home = home
        self._pool = pool
        self._embedded = embedded
        self._surroundings = surroundings
        self._models = models
        self._providers = self._open(models)
        self._old: set[asyncio.Task[None]] = set()
        self.listener: Callable[[ModelsFile], None] | None = None
        """Told when another configuration is in force."""

    def of(self, model: str, models: ModelsFile) -> tuple[ModelProvider, str]:
        """Return the provider of a model and the name it has there, by the file in force."""
        if models is not self._models:
            self._change_to(models)
        return self._providers.found.get(model) or self._providers.of(model)

    def warm(self, deadlines: Deadlines) -> None:
        """Begin to open a connection to each provider, if the settings say so."""
        self._providers.warm(deadlines)

    async def close(self) -> None:
        """Let go of every connection and process."""
        for task in tuple(self._old):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._providers.close()
        await self._embedded.close()

    def _open(self, models: ModelsFile) -> Providers:
        embedded = SharedProvider(self._embedded)
        return open_providers(
            models,
            self._home,
            embedded=embedded,
            pool=self._pool,
            surroundings=self._surroundings,
        )

    def _change_to(self, models: ModelsFile) -> None:
        if models == self._models:
            self._models = models
            return
        old, self._providers, self._models = self._providers, self._open(models), models
        if self.listener is not None:
            self.listener(models)
        task = asyncio.get_running_loop().create_task(_close_later(old))
        self._old.add(task)
        task.add_done_callback(self._old.discard)


async def _close_later(providers: Providers) -> None:
    try:
        await asyncio.sleep(LINGER_S)
    finally:
        await providers.close()
