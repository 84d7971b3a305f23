"""Erase text from a home: what a scope reaches goes from every store; the act is an entry.

Decisions, their chain and their proof stay: the ledger holds digests. Replay says which decisions
can no longer be re-run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Final

from msgspec import Struct

from pointsman.access.keyring import ACCESS, Keyring
from pointsman.audit.recorded_turns import check_recorded
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import DAY, LATEST, Clock, IdSource, Instant, instant_text
from pointsman.kernel.record import DECISION
from pointsman.operations.erasure.scope import (
    ContentKind,
    ErasureScope,
    Reach,
    What,
    check_scope,
    content_kind,
    find_reach,
    reach_of,
    sealed_digests,
)
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.storage.home import Home
from pointsman.storage.policies.retention_settings import RetentionSettings
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.conversations import CONVERSATIONS, ConversationStore
from pointsman.storage.stores.decision_cache import DecisionCache
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.workflows.branching import CACHE_FILE

ERASURE: Final = "event.content.erasure"
"""An erasure was ordered: by whom, of what, and how much it reaches."""
ERASED: Final = "event.content.erased"
"""It is done; `ref` is the order."""
KINDS: Final[tuple[ContentKind, ...]] = ("messages", "agents", "workflows", "feedback")


class ErasurePlan(Struct, frozen=True):
    """What an erasure would take; `held` and `young` texts stay, by a hold or by the floor."""

    scope: ErasureScope
    texts: int
    decisions: int
    turns: int
    held: int
    young: int
    holds: tuple[str, ...]


class ErasureReport(Struct, frozen=True):
    """What an erasure took: texts, messages of conversations, looks of turns, cached answers.

    `is_done` is False for a dry run. `order` is the id of its entry.
    """

    plan: ErasurePlan
    is_done: bool
    order: str = ""
    texts: int = 0
    messages: int = 0
    looks: int = 0
    answers: int = 0


class Ordered(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of an order to erase."""

    what: What
    value: str
    kinds: tuple[ContentKind, ...]
    by: str
    texts: int
    decisions: int
    held: int
    young: int


class Done(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of an erasure that is done."""

    texts: int
    messages: int
    looks: int
    answers: int


ORDERED_FORM: Final = Form(Ordered)
DONE_FORM: Final = Form(Done)


class _Found(Struct, frozen=True):
    """The texts and turns that go."""

    plan: ErasurePlan
    digests: list[str]
    turns: list[str]


class Eraser:
    """Plans and carries out erasures of one home."""

    def __init__(
        self,
        home: Home,
        recorder: DecisionRecorder,
        sources: tuple[Clock, IdSource],
        retention: RetentionSettings,
    ) -> None:
        self._home, self._recorder = home, recorder
        self._clock, self._ids = sources
        self._retention = retention

    def plan(self, scope: ErasureScope) -> ErasurePlan:
        """Tell what an erasure would take; changes nothing."""
        return self._find(scope, KINDS).plan

    def erase(self, scope: ErasureScope, by: str) -> ErasureReport:
        """Erase what a scope reaches; gone from every store when this returns."""
        return self._carry_out(self._find(scope, KINDS), KINDS, by)

    def list_expired(self) -> list[tuple[ErasureScope, tuple[ContentKind, ...]]]:
        """Return the scopes that `retention:` has go by now."""
        now = self._clock.now()
        ends = {kind: getattr(self._retention, kind) for kind in KINDS}
        return [
            (ErasureScope("before", instant_text(Instant(now - days * DAY))), (kind,))
            for kind, days in ends.items()
            if days is not None
        ]

    def erase_expired(self, by: str, *, is_dry: bool) -> list[ErasureReport]:
        """Erase texts past their days, kind by kind."""
        found = [(self._find(scope, kinds), kinds) for scope, kinds in self.list_expired()]
        return [
            ErasureReport(each.plan, is_done=False) if is_dry else self._carry_out(each, kinds, by)
            for each, kinds in found
        ]

    def _find(self, scope: ErasureScope, kinds: Sequence[ContentKind]) -> _Found:
        check_recorded(self._home)
        check_scope(scope)
        with told_errors(self._home.database), closing(LedgerReader(self._home.database)) as ledger:
            asked = _resolve(ledger, scope)
            reach = find_reach(ledger, asked, self._keys_of(asked))
            taken = [e for e in reach.entries if content_kind(e.entry.kind) in kinds]
            since = self._floor()
            old = [each for each in taken if each.entry.at < since]
            going = reach_of(ledger, old)
            young = reach_of(ledger, (each for each in taken if each.entry.at >= since))
            held, names = self._find_held(ledger)
            kept = held.digests | young.digests
            if scope.what == "before":
                places = {(each.chain, each.entry.seq) for each in old}
                kept |= _in_use(ledger, places)
            digests = going.digests - kept
            turns = going.turns - held.turns - young.turns
            plan = ErasurePlan(
                scope,
                len(digests),
                _losing(ledger, old, digests),
                len(turns),
                len(going.digests & held.digests),
                len(young.digests),
                tuple(names) if going.digests & held.digests else (),
            )
        return _Found(plan, [f"hmac-sha256:{each.hex()}" for each in digests], sorted(turns))

    def _carry_out(self, found: _Found, kinds: Sequence[ContentKind], by: str) -> ErasureReport:
        plan = found.plan
        recorder = self._recorder.recorder()
        order = self._ids.new_id()
        ordered = Ordered(
            plan.scope.what,
            plan.scope.value,
            tuple(kinds),
            by,
            plan.texts,
            plan.decisions,
            plan.held,
            plan.young,
        )
        payload = ORDERED_FORM.encode(ordered)
        # INVARIANT: the order is durable before anything goes. A crash leaves an order without an
        # end; the same order again finds the rest.
        recorder.record(Draft(ERASURE, order, "", self._clock.now(), payload))
        texts = recorder.erase_texts(found.digests)
        with_messages = "messages" in kinds
        done = Done(
            texts,
            self._erase_messages(found.turns) if with_messages else 0,
            self._forget_looks(found.turns) if with_messages else 0,
            self._clear_answers(),
        )
        entry = Draft(ERASED, self._ids.new_id(), order, self._clock.now(), DONE_FORM.encode(done))
        recorder.record(entry)
        return ErasureReport(
            plan,
            is_done=True,
            order=order,
            texts=done.texts,
            messages=done.messages,
            looks=done.looks,
            answers=done.answers,
        )

    def _floor(self) -> Instant:
        days = self._retention.floor
        # Without a floor nothing is too young, not even a text from before the clock was set back.
        return Instant(self._clock.now() - days * DAY) if days else LATEST

    def _find_held(self, ledger: LedgerReader) -> tuple[Reach, list[str]]:
        """Return all that holds keep, and their names."""
        scopes = [(hold.name, ErasureScope(*about)) for hold in self._retention.holds  # type: ignore[arg-type] # the fields of a hold are scopes
                  for about in hold.about]  # fmt: skip
        reaches = [find_reach(ledger, each, self._keys_of(each)) for _, each in scopes]
        digests = set(chain.from_iterable(each.digests for each in reaches))
        turns = set(chain.from_iterable(each.turns for each in reaches))
        return Reach([], digests, turns, set(), 0), [name for name, _ in scopes]

    def _keys_of(self, scope: ErasureScope) -> Iterable[str]:
        """Return the keys of a tenant."""
        place = self._home.place(ACCESS)
        if scope.what != "tenant" or not place.exists():
            return ()
        with closing(Keyring(place)) as ring:
            kept = [each.key for each in ring.list_keys()]
        return tuple(key.id for key in kept if (key.tenant or key.id) == scope.value)

    def _erase_messages(self, turns: Sequence[str]) -> int:
        place = self._home.place(CONVERSATIONS)
        if not place.exists():
            return 0
        with closing(ConversationStore(place, "full")) as store:
            return store.erase_turns(turns)

    def _forget_looks(self, turns: Sequence[str]) -> int:
        with closing(PatternStore(self._home.patterns)) as store:
            return store.forget_turns(turns)

    def _clear_answers(self) -> int:
        """Forget cached answers of workflow decisions, which name no turn and cost only time."""
        path = self._home.path / CACHE_FILE
        if not path.exists():
            return 0
        with closing(DecisionCache(path, self._home.content_key())) as cache:
            return cache.clear()


def _resolve(ledger: LedgerReader, scope: ErasureScope) -> ErasureScope:
    """Return the turn's own scope where a decision about it is named."""
    if scope.what != "turn":
        return scope
    found = [each.entry for each in ledger.with_id(scope.value)]
    ref = next((each.ref for each in found if each.kind.startswith(DECISION)), scope.value)
    return ErasureScope("turn", ref)


def _in_use(ledger: LedgerReader, gone: set[tuple[int, int]]) -> set[bytes]:
    """Return the digests that entries name which stay: a text said again later is later text."""
    return {
        digest
        for stored in ledger.of_kind("")
        if (stored.chain, stored.entry.seq) not in gone
        for digest in sealed_digests(ledger, stored)
    }


def _losing(ledger: LedgerReader, entries: Iterable[Stored], digests: set[bytes]) -> int:
    """Count the decisions that look at a text which goes."""
    decisions: Iterator[Stored] = (e for e in entries if e.entry.kind.startswith(DECISION))
    return sum(not digests.isdisjoint(sealed_digests(ledger, each)) for each in decisions)
