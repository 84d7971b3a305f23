"""The policy files of a home, each with its last good content, put together into policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from pointsman.errors import Problem
from pointsman.storage.home import Home
from pointsman.storage.policy_file import Loaded, PolicyFile
from pointsman.storage.settings import Settings, read_settings
from pointsman.turns.policy import (
    NO_MODELS,
    NO_ROUTING,
    ModelsFile,
    RoutingFile,
    TurnPolicy,
    read_models,
    read_routing,
    turn_policy,
)

T = TypeVar("T")


class InForce(Struct, frozen=True):
    """What is in force now, and what is wrong with the files it came from."""

    policy: TurnPolicy
    models: ModelsFile
    problems: tuple[Problem, ...]


class PolicyFiles:
    """`pointsman.yaml`, `models.yaml` and `routing.yaml` of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._settings = self._file("pointsman.yaml", read_settings, Settings())
        self._models = self._file("models.yaml", read_models, NO_MODELS)
        self._routing: tuple[str, PolicyFile[RoutingFile]] | None = None

    def settings(self) -> Loaded[Settings]:
        """Give the settings in force."""
        return self._settings.current()

    def in_force(self) -> InForce:
        """Give the policy in force; an edited file counts from the next call on."""
        models = self._models.current()
        routing = self._routing_for(models).current()
        policy = turn_policy(routing.value, models.value)
        problems = (*self.settings().problems, *models.problems, *routing.problems)
        return InForce(policy, models.value, problems)

    def _routing_for(self, models: Loaded[ModelsFile]) -> PolicyFile[RoutingFile]:
        # Rules name models: other models mean that the same text must be judged anew.
        if self._routing is None or self._routing[0] != models.content_id:
            known = models.value
            file = self._file(
                "routing.yaml", lambda text, name: read_routing(text, name, known), NO_ROUTING
            )
            self._routing = (models.content_id, file)
        return self._routing[1]

    def _file(self, name: str, parse: Callable[[bytes, str], T], default: T) -> PolicyFile[T]:
        return PolicyFile(self._home.path / name, parse, self._home.last_good, default=default)
