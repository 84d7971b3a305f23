"""Policies published in the ledger: the newest of them, and whether its signature holds.

Every publication has a number, which is signed with it. Chains have no order among each
other; these numbers have one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import InputError, IntegrityFailure, MissingSnapshot, ReplayError
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.instant import Instant
from pointsman.kernel.rotation import covering
from pointsman.kernel.signing import VerifyKey
from pointsman.kernel.snapshot import SNAPSHOT, SnapshotForm, read_snapshot
from pointsman.placement import policy as placement
from pointsman.placement.policy import PlacementPolicy
from pointsman.placement.rules.zones import outer_zones
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import read_table
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.turns.policy import (
    NO_ROUTING,
    POLICY_FORM,
    Tables,
    TurnPolicy,
    read_policy,
    turn_policy,
)
from pointsman.turns.registry.models import NO_MODELS, Model, ModelsFile, in_zones, read_models

T = TypeVar("T")

PUBLISHED: Final = "event.policy.published"
MODELS: Final = "models.yaml"
ROUTING: Final = "routing.yaml"
PLACEMENT: Final = "placement.yaml"
PUBLISHED_FILES: Final = (MODELS, ROUTING, PLACEMENT)


class Publication(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A published policy as a snapshot: signed as a whole, and named by its content.

    `previous` is the id of the publication it takes the place of; empty for the first. `files` are
    the texts by name: `models.yaml` says what no policy does, the rest is for people to edit.
    `changed` names those that were other texts before.
    """

    number: int
    previous: str
    policy_id: ContentId
    placement_id: ContentId
    files: dict[str, str]
    by: str
    at: Instant
    changed: tuple[str, ...] = ()


class Announcement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The entry that makes a publication known; all of it must be what the publication says."""

    publication_id: ContentId
    number: int
    previous: str
    policy_id: ContentId
    placement_id: ContentId
    by: str
    changed: tuple[str, ...] = ()


PUBLICATION_FORM = SnapshotForm("policy.publication", 1, Publication)
ANNOUNCEMENT_FORM = Form(Announcement)


class Candidate(Struct, frozen=True):
    """Policies that were compiled from texts, and fit each other."""

    turns: TurnPolicy
    placement: PlacementPolicy
    models: ModelsFile
    texts: dict[str, str]
    over: str
    """The id of the publication that it is to take the place of; empty where there is none."""

    @property
    def ids(self) -> tuple[ContentId, ContentId]:
        """The ids of both policies."""
        return POLICY_FORM.id(self.turns), placement.POLICY_FORM.id(self.placement)


class Published(Struct, frozen=True):
    """A publication that was verified, with all that it names."""

    id: ContentId
    publication: Publication
    turns: TurnPolicy
    placement: PlacementPolicy
    models: ModelsFile
    entry_id: str = ""
    """The entry that made it known."""


class RefusedPublication(Struct, frozen=True):
    """An announcement that is not followed, and why."""

    entry_id: str
    number: int
    reason: str
    at: Instant


class Succession(Struct, frozen=True):
    """The publications in the ledger: the newest that holds, and those refused since."""

    newest: Published | None = None
    refused: tuple[RefusedPublication, ...] = ()
    numbers: frozenset[int] = frozenset()
    over: str = ""
    """The newest that the ledger holds, for who keeps a newer one that was damaged there since."""

    @property
    def head(self) -> str:
        """The id of the newest publication; empty where there is none."""
        return "" if self.newest is None else self.newest.id

    @property
    def next_number(self) -> int:
        """The number of the next publication: one that no entry claims, true or forged."""
        number = 1 if self.newest is None else self.newest.publication.number + 1
        while number in self.numbers:
            number += 1
        return number


def candidate(
    texts: Mapping[str, bytes],
    over: str,
    known_of: Callable[[ModelsFile], dict[str, Model]],
    kinds: Sequence[str],
    user_home: str,
    tables: Tables,
) -> Candidate:
    """Compile policies from the texts of files, or raise with all that is wrong with one of them.

    A file that is not given counts as on disk: its defaults.
    """
    models = read_models(texts[MODELS], MODELS) if MODELS in texts else NO_MODELS
    known = known_of(models)
    table = placement.BUILT_IN
    if PLACEMENT in texts:
        table = read_table(texts[PLACEMENT], PLACEMENT, kinds, known)
    zones = table.given_zones
    if MODELS in texts:
        read_models(texts[MODELS], MODELS, zones)
    known = in_zones(known, outer_zones(zones))
    routing = NO_ROUTING
    if ROUTING in texts:
        routing = read_policy(texts[ROUTING], ROUTING, known, user_home, zones, tables=tables)
    return Candidate(
        turn_policy(routing, known, user_home, tables),
        placement.placement_policy(table),
        models,
        {name: text.decode() for name, text in texts.items()},
        over,
    )


def succession(reader: LedgerReader, home: Home) -> Succession:
    """Find the newest publication that holds.

    The highest number counts. One that cannot be read, is not signed by a key of this ledger, or
    shares its number with another is passed over as a whole.
    """
    claims: defaultdict[int, list[tuple[Stored, Announcement]]] = defaultdict(list)
    unread: list[RefusedPublication] = []
    for stored in reader.of_kind(PUBLISHED):
        try:
            claim = ANNOUNCEMENT_FORM.decode(stored.entry.payload)
        except ReplayError as error:
            unread.append(RefusedPublication(stored.entry.id, 0, error.message, stored.entry.at))
        else:
            claims[claim.number].append((stored, claim))
    numbers = frozenset(claims)
    refused: list[RefusedPublication] = []
    for number in sorted(claims, reverse=True):
        found, wrong = _choose_valid(reader, home, claims[number])
        refused += wrong
        if found is not None:
            # What cannot be read has no number: it is told until another is published after it.
            refused += [each for each in unread if each.at >= found.publication.at]
            return Succession(found, tuple(refused), numbers)
    return Succession(None, (*refused, *unread), numbers)


def _choose_valid(
    reader: LedgerReader, home: Home, claims: Sequence[tuple[Stored, Announcement]]
) -> tuple[Published | None, list[RefusedPublication]]:
    """Return the one publication of a number that holds, and the others with their faults."""
    held: dict[ContentId, Published] = {}
    wrong: list[RefusedPublication] = []
    for stored, claim in claims:
        try:
            found = load_publication(reader, home, claim)
            held[claim.publication_id] = replace(found, entry_id=stored.entry.id)
        except (ReplayError, InputError, ValueError) as error:
            wrong.append(
                RefusedPublication(stored.entry.id, claim.number, str(error), stored.entry.at)
            )
    if len(held) > 1:
        # INVARIANT: two that were both signed under one number are no succession: neither counts.
        reason = "another publication has the same number"
        both = (RefusedPublication(s.entry.id, c.number, reason, s.entry.at) for s, c in claims)
        return None, [*wrong, *both]
    return next(iter(held.values()), None), wrong


def load_publication(reader: LedgerReader, home: Home, claim: Announcement) -> Published:
    """Load a publication and all that it names, or raise: never a part of it."""
    keys = (home.identity.ledger, home.keys)
    found = load_snapshot(reader, PUBLICATION_FORM, claim.publication_id, *keys)
    if announcement(claim.publication_id, found) != claim:
        raise IntegrityFailure(f"publication `{claim.publication_id}` says other than its entry")
    text = found.files.get(MODELS)
    return Published(
        claim.publication_id,
        found,
        load_snapshot(reader, POLICY_FORM, found.policy_id, *keys),
        load_snapshot(reader, placement.POLICY_FORM, found.placement_id, *keys),
        NO_MODELS if text is None else read_models(text.encode(), MODELS),
    )


def announcement(name: ContentId, publication: Publication) -> Announcement:
    """Return what the entry of a publication says."""
    return Announcement(
        name,
        publication.number,
        publication.previous,
        publication.policy_id,
        publication.placement_id,
        publication.by,
        publication.changed,
    )


def load_snapshot(
    reader: LedgerReader, form: SnapshotForm[T], name: str, ledger: str, keys: Sequence[VerifyKey]
) -> T:
    """Load a snapshot by its id; a forged row under the same id does not hide the true one.

    A key that was replaced signs none that was stored later.
    """
    names = {number: name for name, number in reader.chains().items()}
    last: Exception = MissingSnapshot(f"the snapshot `{name}` is not stored")
    for stored in reader.with_id(name):
        if stored.entry.kind != SNAPSHOT:
            continue
        try:
            body = reader.attachment(stored, name)
            current = covering(keys, names.get(stored.chain, ""), stored.entry.seq)
            return form.load(read_snapshot(stored.entry, body), ledger, current)
        except (ReplayError, ValueError) as error:
            last = error
    raise last
