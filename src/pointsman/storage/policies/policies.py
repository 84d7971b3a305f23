"""The policy files of a home, each with its last good content, put together into policies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.errors import DocumentError, IntegrityFailure, Problem
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.document import Document
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.placement import policy as placement
from pointsman.placement.compiled import CompiledPlacement
from pointsman.placement.compiled import compile_policy as compile_placement
from pointsman.placement.facts import LocalModel
from pointsman.placement.rules.table import PlacementFile
from pointsman.placement.rules.zones import outer_zones
from pointsman.storage.home import BareFolder, Home
from pointsman.storage.policies.policy_file import LastGood, Loaded, PolicyFile, UntouchedLastGood
from pointsman.storage.policies.price_table import load_catalogue, load_price_table
from pointsman.storage.policies.routing_tables import RoutingTables
from pointsman.storage.policies.settings import Settings, read_settings
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.compiled import compile_policy as compile_turns
from pointsman.turns.policy import (
    NO_ROUTING,
    POLICY_FORM,
    RoutingFile,
    read_policy,
    turn_policy,
    unknown_model_problems,
)
from pointsman.turns.registry.catalogue import Catalogue
from pointsman.turns.registry.models import (
    EMBEDDED_MODEL,
    NO_MODELS,
    Model,
    ModelsFile,
    in_zones,
    named_models,
    read_models,
    registry,
)
from pointsman.turns.registry.prices import PriceTable
from pointsman.turns.rules.table import OfferedTable

T = TypeVar("T")


class InvalidFile(Struct, frozen=True):
    """A file that cannot be used, and what stands in for it.

    `entry_id` is that of the ledger's entry where it is a publication and no file.
    """

    name: str
    problems: tuple[Problem, ...]
    using_last_known_good: bool
    entry_id: str = ""


class Origin(Struct, frozen=True):
    """Where a policy comes from; of one published in the ledger, which it is and whose."""

    source: Literal["files", "ledger"] = "files"
    number: int = 0
    publication_id: str = ""
    by: str = ""
    at: Instant = EPOCH
    notice: str = ""


FROM_FILES = Origin()


class InForce(Struct, frozen=True):
    """The policy in force, and the problems of the files it came from."""

    ready: CompiledTurnPolicy
    policy_id: ContentId
    models: ModelsFile
    placement: CompiledPlacement
    placement_id: ContentId
    invalid: tuple[InvalidFile, ...]
    candidates: dict[tuple[str, ...] | None, tuple[LocalModel, str]] = {}
    """Worked out once for as long as this is in force, by which models are configured."""
    origin: Origin = FROM_FILES

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, file by file."""
        return tuple(problem for file in self.invalid for problem in file.problems)


class _Good(Struct, frozen=True):
    """A policy whose files fitted, and the models file it rests on."""

    ready: CompiledTurnPolicy
    policy_id: ContentId
    models: ModelsFile


class _AnyModel(dict[str, Model]):
    """Models, of which some are not known: whatever is named may be among them."""

    def __contains__(self, name: object) -> bool:
        return True


class PolicyFiles:
    """`pointsman.yaml`, `models.yaml`, `routing.yaml` and `placement.yaml` of one home.

    `kinds` are what the detector can find, for `placement.yaml` to name. Without `is_kept` nothing
    is ever written.
    """

    def __init__(
        self, home: Home | BareFolder, kinds: Sequence[str] = (), *, is_kept: bool = True
    ) -> None:
        self.path = home.path
        self._last_good_path = home.last_good
        self.is_kept = is_kept
        self._kinds = kinds
        self._user_home = str(Path.home())
        self.prices: PriceTable = load_price_table()
        self.catalogue: Catalogue = load_catalogue()
        self._settings = self._file("pointsman.yaml", read_settings, Settings())
        self._models = self._file("models.yaml", read_models, NO_MODELS)
        self._placement = self._file(
            "placement.yaml",
            lambda text, name: placement.read_policy(text, name, kinds),
            placement.BUILT_IN,
        )
        self._placed: tuple[object, CompiledPlacement, ContentId] | None = None
        self._tables = RoutingTables(home.path)
        self._rests_on: tuple[object, object, PolicyFile[RoutingFile]] | None = None
        self._made: tuple[object, CompiledTurnPolicy, ContentId] | None = None
        self._good: _Good | None = None
        self._last: tuple[tuple[PolicyFile[Any] | RoutingTables, ...], InForce] | None = None
        """The policy put together last, and the files it is made of."""
        self._together_last: tuple[tuple[object, ...], InForce] | None = None
        kept = LastGood if is_kept else UntouchedLastGood
        self._kept = kept(home.last_good / "turn-policy")
        self._kept_models = kept(home.last_good / "turn-policy.models")
        self._lock = threading.RLock()

    def settings(self) -> Loaded[Settings]:
        """Return the settings in force."""
        with self._lock:
            return self._settings.current()

    def in_force(self) -> InForce:
        """Return the policy in force; an edited file counts from the next call on.

        Every turn asks: while no file changes, that takes one look at the status of each.
        """
        last = self._last
        if last is not None:
            for file in last[0]:
                if not file.is_current():
                    break
            else:
                return last[1]
        with self._lock:
            models = self._models.current()
            routing = self._routing_for(models)
            found = self._together(models, routing.current())
            files = (self._settings, self._models, routing, self._placement)
            # Where no rule names a table, no turn looks for one.
            tables = (self._tables,) if self._tables.in_force() else ()
            self._last = ((*files, *tables), found)
            return found

    def reload(self) -> InForce:
        """Read every file anew, whatever its time and size say."""
        with self._lock:
            self._settings.reload()
            self._placement.reload()
            self._tables.reload()
            self._last = None
            models = self._models.reload()
            return self._together(models, self._routing_for(models).reload())

    def on_disk(self) -> InForce:
        """Return what the files of this machine say, whether they are in force or not."""
        return self.in_force()

    def text(self, name: str) -> bytes | None:
        """Return the text of a policy file; None where there is none."""
        path = self.path / name
        return path.read_bytes() if path.exists() else None

    def close(self) -> None:
        """Do nothing: files need no closing."""

    def known_models(self, models: ModelsFile) -> dict[str, Model]:
        """Return the registry of a models file, in the order it is written in."""
        known = registry(models, self.prices.price, self.catalogue.capabilities)
        zones = self._placement.current().value.given_zones
        return in_zones(known, outer_zones(zones)) if zones else known

    def routing_tables(self) -> Mapping[str, OfferedTable]:
        """Return the decisions that rules may name, read when one does."""
        return self._tables

    def _together(self, models: Loaded[ModelsFile], routing: Loaded[RoutingFile]) -> InForce:
        """Put the files together; where they do not fit, the last policy that did stays."""
        settings, table = self._settings.current(), self._placement.current()
        seen = (settings, models, routing, table)
        last = self._together_last
        if last is not None and all(a is b for a, b in zip(last[0], seen, strict=True)):
            return last[1]
        found = self._made_of(settings, models, routing, table)
        self._together_last = (seen, found)
        return found

    def _made_of(
        self,
        settings: Loaded[Settings],
        models: Loaded[ModelsFile],
        routing: Loaded[RoutingFile],
        table: Loaded[PlacementFile],
    ) -> InForce:
        fits = _is_good(models) and _is_good(routing)
        kept = None if fits else self._last_good()
        if not _is_good(models):
            # It was judged by the models that the broken file means, which are not there.
            routing = replace(routing, value=NO_ROUTING, content_id="")
        found = kept or _Good(*self._ready(models, routing), models.value)
        if fits:
            self._keep(found)
        stands_in = kept is not None
        invalid = (
            *invalid_settings(settings),
            *_invalid("models.yaml", self._with_zone_misfits(models, table), stands_in=stands_in),
            *_invalid(
                "routing.yaml", self._with_rule_misfits(routing, models, table), stands_in=stands_in
            ),
            *_invalid("placement.yaml", self._with_misfits(table, models), stands_in=False),
        )
        return InForce(
            found.ready, found.policy_id, found.models, *self._ready_placement(table), invalid
        )

    def _with_misfits(
        self, table: Loaded[PlacementFile], models: Loaded[ModelsFile]
    ) -> Loaded[PlacementFile]:
        """Add the problems that a good table has with the models; it stays in force all the same.

        A table that is taken out of force would keep every turn here over one wrong name.
        """
        content = self._placement.content
        if table.source == "file" and content is not None and table.value.local_model is not UNSET:
            name = str(self.path / "placement.yaml")
            known = self._nameable(models)
            return _with_problems(table, lambda: read_table(content, name, self._kinds, known))
        return table

    def _with_zone_misfits(
        self, models: Loaded[ModelsFile], table: Loaded[PlacementFile]
    ) -> Loaded[ModelsFile]:
        """Add the zones of good models that a good table does not name.

        They stay in force: such a zone lies within none but `cloud`.
        """
        content = self._models.content
        has_any = any(each.zone is not UNSET for each in models.value.models.values())
        if content is not None and has_any and _is_good(models) and _is_good(table):
            name, zones = str(self.path / "models.yaml"), table.value.given_zones
            return _with_problems(models, lambda: read_models(content, name, zones))
        return models

    def _with_rule_misfits(
        self,
        routing: Loaded[RoutingFile],
        models: Loaded[ModelsFile],
        table: Loaded[PlacementFile],
    ) -> Loaded[RoutingFile]:
        """Add the zones that rules ask for and a good table does not name; they never hold."""
        content = self._routing_for(models).content
        is_good = _is_good(models) and _is_good(routing) and _is_good(table)
        if content is not None and is_good and b"zone_is" in content:
            name, zones = str(self.path / "routing.yaml"), table.value.given_zones
            known = self._nameable(models)
            return _with_problems(
                routing,
                lambda: read_policy(
                    content, name, known, self._user_home, zones, tables=self._tables
                ),
            )
        return routing

    def _ready_placement(self, table: Loaded[PlacementFile]) -> tuple[CompiledPlacement, ContentId]:
        """Make the placement policy ready once for as long as its file does not change."""
        # INVARIANT: a table that cannot be read lets nothing leave (ADR 0006).
        is_unreadable = table.source == "default" and bool(table.problems)
        key = (table.content_id, is_unreadable)
        if self._placed is None or self._placed[0] != key:
            policy = replace(placement.placement_policy(table.value), is_unreadable=is_unreadable)
            self._placed = (key, compile_placement(policy), placement.POLICY_FORM.id(policy))
        return self._placed[1], self._placed[2]

    def _keep(self, good: _Good) -> None:
        # Both files together: either may be good by itself and yet not fit the other.
        if self._good is None or self._good.policy_id != good.policy_id:
            self._kept_models.store(self._models.kept_content())
            self._kept.store(POLICY_FORM.form.encode(good.ready.policy))
        self._good = good

    def _last_good(self) -> _Good | None:
        """Return the last policy whose files fitted, also that of an earlier process."""
        content = self._kept.load()[0] if self._good is None else None
        if content is not None:
            # What another version kept may have another form; then there is no last policy.
            with suppress(IntegrityFailure, DocumentError):
                policy = POLICY_FORM.form.decode(content)
                text = self._kept_models.load()[0]
                models = read_models(text, "models.yaml") if text else NO_MODELS
                self._good = _Good(compile_turns(policy), POLICY_FORM.id(policy), models)
        return self._good

    def _ready(
        self, models: Loaded[ModelsFile], routing: Loaded[RoutingFile]
    ) -> tuple[CompiledTurnPolicy, ContentId]:
        """Make the policy ready once for as long as neither file changes."""
        tables = self._tables.in_force()
        zones = self._placement.current().value.given_zones
        key = (models.content_id, routing.content_id, outer_zones(zones), tables)
        if self._made is None or self._made[0] != key:
            known = self.known_models(models.value)
            policy = turn_policy(routing.value, known, self._user_home, tables)
            self._made = (key, compile_turns(policy), POLICY_FORM.id(policy))
        return self._made[1], self._made[2]

    def _routing_for(self, models: Loaded[ModelsFile]) -> PolicyFile[RoutingFile]:
        # Rules name models and tables: with others the same text must be judged anew.
        tables, last = self._tables.in_force(), self._rests_on
        if last is None or last[0] is not models or last[1] is not tables:
            known = self._nameable(models)
            file = self._file(
                "routing.yaml",
                lambda text, name: read_policy(
                    text, name, known, self._user_home, tables=self._tables
                ),
                NO_ROUTING,
                is_kept=_is_good(models),
            )
            file.current()
            # To read the rules asks for the tables that they name.
            last = self._rests_on = (models, self._tables.in_force(), file)
        return last[2]

    def _nameable(self, models: Loaded[ModelsFile]) -> Mapping[str, Model]:
        """Return the models that rules may name: of a broken file, also those that it meant.

        A rule that names one of these has no error of its own.
        """
        known = self.known_models(models.value)
        if _is_good(models):
            return known
        content = self._models.content
        meant = None if content is None else named_models(content)
        if meant is None:
            return _AnyModel(known)
        return known | dict.fromkeys(meant, known[EMBEDDED_MODEL])

    def _file(
        self, name: str, parse: Callable[[bytes, str], T], default: T, *, is_kept: bool = True
    ) -> PolicyFile[T]:
        path, keep = self.path / name, self._last_good_path
        return PolicyFile(path, parse, keep, default=default, is_kept=is_kept and self.is_kept)


def read_table(
    text: bytes, source: str, kinds: Iterable[str], models: Mapping[str, Model]
) -> PlacementFile:
    """Read `placement.yaml` against the models there are."""

    def check_local_model(table: PlacementFile, document: Document) -> Iterable[Problem]:
        name = table.local_model
        if name is not UNSET:
            yield from unknown_model_problems(name, models, document, ("local_model",))

    return placement.read_policy(text, source, kinds, check_local_model)


def _with_problems(loaded: Loaded[T], read: Callable[[], object]) -> Loaded[T]:
    """Add to a file what another reading of it finds wrong."""
    try:
        read()
    except DocumentError as error:
        return replace(loaded, problems=(*loaded.problems, *error.problems))
    return loaded


def invalid_settings(settings: Loaded[Settings]) -> tuple[InvalidFile, ...]:
    """Return the problems with `pointsman.yaml`."""
    return _invalid("pointsman.yaml", settings, stands_in=False)


def _is_good(loaded: Loaded[T]) -> bool:
    return loaded.source == "file" or not loaded.problems


def _invalid(name: str, loaded: Loaded[T], *, stands_in: bool) -> tuple[InvalidFile, ...]:
    if not loaded.problems:
        return ()
    return (InvalidFile(name, loaded.problems, stands_in or loaded.using_last_known_good),)
