"""Publishing a policy in the ledger: its snapshots first, then the entry that makes it known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, TypeVar

from msgspec import Struct

from pointsman.errors import ChainHeld, LeaseLost, PolicyHoldsSecret, PolicyMoved, ReplayError
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.placement.policy import POLICY_FORM as PLACEMENT_FORM
from pointsman.recording.recorder import Recorder
from pointsman.signals.detectors import detect
from pointsman.signals.redaction import SECRETS
from pointsman.storage.home import Home
from pointsman.storage.policies.publications import (
    ANNOUNCEMENT_FORM,
    PUBLICATION_FORM,
    PUBLISHED,
    PUBLISHED_FILES,
    Candidate,
    Publication,
    Published,
    Succession,
    announcement,
    load_snapshot,
    succession,
)
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import HeldLease
from pointsman.turns.policy import POLICY_FORM

T = TypeVar("T")

LEASE: Final = "policy"
_HINT: Final = "look at what is in force now, and publish again"


class PublishResult(Struct, frozen=True):
    """The publication in force now, and whether this call made it."""

    id: ContentId
    publication: Publication
    is_new: bool


def publish(
    home: Home, recorder: Recorder, sources: tuple[Clock, IdSource], given: Candidate, by: str
) -> PublishResult:
    """Publish a policy; it is durable when this returns, or nothing of it counts.

    One at a time, and only in the place of the publication that the candidate was made over: of
    several callers at once the first wins, and the others get `PolicyMoved`.
    A policy in force is not published again.
    """
    _check_secrets(given)
    with (
        _publishing_lease(home) as lease,
        told_errors(home.database),
        closing(LedgerReader(home.database)) as reader,
    ):
        publisher = Publisher(home, recorder, sources, reader, lease)
        before = succession(reader, home)
        if before.newest is not None and _is_same(before.newest, given):
            return PublishResult(before.newest.id, before.newest.publication, is_new=False)
        if before.head != given.over:
            raise PolicyMoved(_moved_message(before.newest), hint=_HINT)
        return publisher.publish(given, before, by)


class Publisher:
    """Writes one publication, under the lease to publish."""

    def __init__(
        self,
        home: Home,
        recorder: Recorder,
        sources: tuple[Clock, IdSource],
        reader: LedgerReader,
        lease: HeldLease,
    ) -> None:
        self._home = home
        self._recorder = recorder
        self._clock, self._ids = sources
        self._reader = reader
        self._lease = lease

    def publish(self, given: Candidate, before: Succession, by: str) -> PublishResult:
        """Publish in the place of the newest publication that was read under the lease."""
        at = self._clock.now()
        # INVARIANT: every snapshot it names is durable before it is announced.
        policy_id = self._record_snapshot(POLICY_FORM, given.turns, at)
        placement_id = self._record_snapshot(PLACEMENT_FORM, given.placement, at)
        said = Publication(
            number=before.next_number,
            previous=given.over,
            policy_id=policy_id,
            placement_id=placement_id,
            files=given.texts,
            by=by,
            at=at,
            changed=_changed_files(before.newest, given),
        )
        name = self._record_snapshot(PUBLICATION_FORM, said, at)
        payload = ANNOUNCEMENT_FORM.encode(announcement(name, said))
        # INVARIANT: the lease was held since the succession was read, or nothing is announced. It
        # may be lost with a connection, and then taken by another publisher.
        entry = Draft(PUBLISHED, self._ids.new_id(), name, at, payload)
        self._recorder.record_under(self._lease, entry)
        after = succession(self._reader, self._home)
        if after.head != name:
            raise PolicyMoved("another was published in the same moment", hint=_HINT)
        return PublishResult(name, said, is_new=True)

    def _record_snapshot(self, form: SnapshotForm[T], value: T, at: Instant) -> ContentId:
        """Record a snapshot unless it is there, and signed."""
        name, ledger = form.id(value), self._home.identity.ledger
        try:
            load_snapshot(self._reader, form, name, ledger, self._home.keys)
        except (ReplayError, ValueError):
            made = form.make(value, ledger, self._recorder.key)
            self._recorder.record(snapshot_draft(made, at))
        return name


def _check_secrets(given: Candidate) -> None:
    """Refuse texts that seem to hold a secret: a recorded text cannot be taken back."""
    for name, text in given.texts.items():
        hit = next((each for each in detect(text) if each.kind in SECRETS), None)
        if hit is not None:
            line = text.count("\n", 0, hit.start) + 1
            raise PolicyHoldsSecret(
                where=f"{name}:{line}", hint="name it by `api_key: {env: NAME}` or `{file: PATH}`"
            )


@contextmanager
def _publishing_lease(home: Home) -> Iterator[HeldLease]:
    try:
        # Waited for: the publisher that has it may be one whose candidate is out of date, and of
        # several at once one must win.
        lease = home.lease(LEASE, waits=True)
    except ChainHeld as error:
        raise PolicyMoved("another has been publishing for a minute", hint=_HINT) from error
    try:
        yield lease
    except LeaseLost as error:
        raise PolicyMoved("another has begun to publish meanwhile", hint=_HINT) from error
    finally:
        lease.release()


def _is_same(newest: Published, given: Candidate) -> bool:
    said = newest.publication
    return (said.policy_id, said.placement_id) == given.ids and said.files == given.texts


def _changed_files(newest: Published | None, given: Candidate) -> tuple[str, ...]:
    before = {} if newest is None else newest.publication.files
    return tuple(name for name in PUBLISHED_FILES if given.texts.get(name) != before.get(name))


def _moved_message(newest: Published | None) -> str:
    if newest is None:
        return "nothing is published: what this was to take the place of is gone"
    said = newest.publication
    return f"publication {said.number} by `{said.by}` is in force now"
