"""The policy files of a home, each with its last good content, put together into policies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from pointsman.errors import DocumentError, IntegrityFailure, Problem
from pointsman.kernel.canonical import ContentId
from pointsman.storage.home import Home
from pointsman.storage.policy_file import LastGood, Loaded, PolicyFile
from pointsman.storage.price_table import load_price_table
from pointsman.storage.settings import Settings, read_settings
from pointsman.turns.policy import (
    NO_ROUTING,
    POLICY_FORM,
    RoutingFile,
    read_routing,
    turn_policy,
)
from pointsman.turns.prices import PriceTable
from pointsman.turns.ready import ReadyPolicy
from pointsman.turns.registry import NO_MODELS, Model, ModelsFile, read_models, registry

T = TypeVar("T")


class InvalidFile(Struct, frozen=True):
    """A file that cannot be used, and what stands in for it."""

    name: str
    problems: tuple[Problem, ...]
    using_last_known_good: bool


class InForce(Struct, frozen=True):
    """What is in force now, and what is wrong with the files it came from."""

    ready: ReadyPolicy
    policy_id: ContentId
    models: ModelsFile
    invalid: tuple[InvalidFile, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, file by file."""
        return tuple(problem for file in self.invalid for problem in file.problems)


class _Good(Struct, frozen=True):
    """A policy whose files fitted, and the models file it rests on."""

    ready: ReadyPolicy
    policy_id: ContentId
    models: ModelsFile


class PolicyFiles:
    """`pointsman.yaml`, `models.yaml` and `routing.yaml` of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._user_home = str(Path.home())
        self.prices: PriceTable = load_price_table()
        self._settings = self._file("pointsman.yaml", read_settings, Settings())
        self._models = self._file("models.yaml", read_models, NO_MODELS)
        self._known: tuple[str, dict[str, Model], PolicyFile[RoutingFile]] | None = None
        self._made: tuple[object, ReadyPolicy, ContentId] | None = None
        self._good: _Good | None = None
        self._kept = LastGood(home.last_good / "turn-policy")
        self._kept_models = LastGood(home.last_good / "turn-policy.models")
        self._lock = threading.RLock()

    def settings(self) -> Loaded[Settings]:
        """Give the settings in force."""
        with self._lock:
            return self._settings.current()

    def in_force(self) -> InForce:
        """Give the policy in force; an edited file counts from the next call on."""
        with self._lock:
            models = self._models.current()
            return self._together(models, self._routing_for(models).current())

    def reload(self) -> InForce:
        """Read every file anew, whatever its time and size say."""
        with self._lock:
            self._settings.reload()
            models = self._models.reload()
            return self._together(models, self._routing_for(models).reload())

    def known(self, models: ModelsFile) -> dict[str, Model]:
        """Give the registry of a models file, in the order it is written in."""
        return registry(models, self.prices.price)

    def _together(self, models: Loaded[ModelsFile], routing: Loaded[RoutingFile]) -> InForce:
        """Put the files together; where they do not fit, the last policy that did stays."""
        fits = _is_good(models) and _is_good(routing)
        kept = None if fits else self._last_good()
        found = kept or _Good(*self._ready(models, routing), models.value)
        if fits:
            self._keep(found)
        stands_in = kept is not None
        invalid = (
            *_invalid("pointsman.yaml", self.settings(), stands_in=False),
            *_invalid("models.yaml", models, stands_in=stands_in),
            *_invalid("routing.yaml", routing, stands_in=stands_in),
        )
        return InForce(found.ready, found.policy_id, found.models, invalid)

    def _keep(self, good: _Good) -> None:
        # Both files together: either may be good by itself and yet not fit the other.
        if self._good is None or self._good.policy_id != good.policy_id:
            self._kept_models.store(self._models.kept_content())
            self._kept.store(POLICY_FORM.form.encode(good.ready.policy))
        self._good = good

    def _last_good(self) -> _Good | None:
        """Give the last policy whose files fitted, also that of an earlier process."""
        content = self._kept.load()[0] if self._good is None else None
        if content is not None:
            # What another version kept may have another form; then there is no last policy.
            with suppress(IntegrityFailure, DocumentError):
                policy = POLICY_FORM.form.decode(content)
                text = self._kept_models.load()[0]
                models = read_models(text, "models.yaml") if text else NO_MODELS
                self._good = _Good(ReadyPolicy(policy), POLICY_FORM.id(policy), models)
        return self._good

    def _ready(
        self, models: Loaded[ModelsFile], routing: Loaded[RoutingFile]
    ) -> tuple[ReadyPolicy, ContentId]:
        """Make the policy ready once for as long as neither file changes."""
        key = (models.content_id, routing.content_id)
        if self._made is None or self._made[0] != key:
            policy = turn_policy(routing.value, self.known(models.value), self._user_home)
            self._made = (key, ReadyPolicy(policy), POLICY_FORM.id(policy))
        return self._made[1], self._made[2]

    def _routing_for(self, models: Loaded[ModelsFile]) -> PolicyFile[RoutingFile]:
        # Rules name models: other models mean that the same text must be judged anew.
        if self._known is None or self._known[0] != models.content_id:
            known = self.known(models.value)
            file = self._file(
                "routing.yaml",
                lambda text, name: read_routing(text, name, known, self._user_home),
                NO_ROUTING,
            )
            self._known = (models.content_id, known, file)
        return self._known[2]

    def _file(self, name: str, parse: Callable[[bytes, str], T], default: T) -> PolicyFile[T]:
        return PolicyFile(self._home.path / name, parse, self._home.last_good, default=default)


def _is_good(loaded: Loaded[T]) -> bool:
    return loaded.source == "file" or not loaded.problems


def _invalid(name: str, loaded: Loaded[T], *, stands_in: bool) -> tuple[InvalidFile, ...]:
    if not loaded.problems:
        return ()
    return (InvalidFile(name, loaded.problems, stands_in or loaded.using_last_known_good),)
