"""The decision recorder of a home: opened on first use, it records rulings and their placements.

Ids and instants come from the clock and the source it is given; nothing is made up here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import cast

import apsw
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.kernel.record import Aside, Names
from pointsman.placement.facts import Taint
from pointsman.recording.recorder import Recorder
from pointsman.recording.ruling import (
    PlacementRuling,
    Ruling,
    placement_record,
    policies_in_force,
    turn_draft,
    turn_record,
)
from pointsman.recording.taints import (
    STAY_WITHIN,
    Taints,
    cleared_draft,
    taint_draft,
    taint_rule,
    taint_zones,
)
from pointsman.recording.waiting import BlockingWaiter, DurabilityWaiter
from pointsman.signals.redaction import hide_secrets, redact
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import InForce, InvalidFile, PolicyFiles
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import KeptText
from pointsman.storage.writer.group import Waiter
from pointsman.storage.writer.ledger import Receipt
from pointsman.turns.facts import with_seal

TaintName = Callable[[], str] | None
"""Names the taint's holder where that is not the session; called only when a taint is recorded."""

POLICY_INVALID = "event.routing.policy_invalid"
POLICY_REFUSED = "event.policy.refused"
"""A published policy that was not followed; `ref` is the entry that made it known."""


class DecisionRecorder:
    """Records for one home. Nothing is written before the first decision is."""

    def __init__(
        self,
        home: Home,
        files: PolicyFiles,
        writer: str,
        sources: tuple[Clock, IdSource],
        taints: Taints,
    ) -> None:
        self._home = home
        self._files = files
        self._writer = writer
        self._clock, self._ids = sources
        self._taints = taints
        self._recorder: Recorder | None = None
        self._told_invalid: tuple[InvalidFile, ...] = ()
        self._unrecorded: set[str] = set()
        """Who is held by a taint that is not durable yet, or never was: its entry was refused."""
        self._lock = threading.RLock()

    def close(self) -> None:
        """Write and sign all pending entries, and release the home."""
        with self._lock:
            recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()

    def clear_taint(self, session_id: str, taint: Taint, reason: str) -> None:
        """Record that a session may leave again, and why."""
        names = Names(self._ids.new_id(), session_id, self._clock.now())
        self.recorder().record(cleared_draft(names, taint, reason))
        self._taints.note(session_id, None)

    def record(self, names: Names, in_force: InForce, ruling: Ruling, aside: Aside) -> Instant:
        """Record a turn, its text first, and wait until it is durable.

        Gives the recorded instant: a chain's time never goes back, so it may be later than asked.
        """
        seal = self._store_text(ruling.facts.message)
        ruling = replace(ruling, facts=with_seal(ruling.facts, seal))
        waits = BlockingWaiter()
        self.hand_in(names, in_force, ruling, aside, waits)
        receipt = cast("Receipt", waits.wait()[-1])
        return receipt.entry.at

    def hand_in(  # noqa: PLR0913, PLR0917 - what one turn's entries need
        self,
        names: Names,
        in_force: InForce,
        ruling: Ruling,
        aside: Aside,
        waits: DurabilityWaiter,
        linked: str = "",
        taint_as: TaintName = None,
    ) -> None:
        """Hand a turn in: its text, its policies if they are new, and both its decisions.

        A turn that must stay taints the name from `taint_as`, else the session; a turn without a
        model taints nothing.

        INVARIANT: the caller waits for all of it before acting. Text and decision are synced side
        by side, so that keeping the text costs no second wait. The decision is expected last.
        """
        recorder = self._recorder or self.recorder()
        if in_force.invalid is not self._told_invalid:
            self._record_invalid(in_force, recorder)
        policies, ledger = policies_in_force(in_force), self._home.identity.ledger
        placing, message = ruling.placing, ruling.facts.message
        seal, text = _seal_text(recorder, message, waits)
        if ruling.is_placed_anew:
            if not placing.is_advice:
                first = Names(self._ids.new_id(), names.ref, names.at)
                values = _hand_in_values(recorder, placing, waits)
                made = placement_record(policies, placing, seal, ledger, values)
                recorder.hand_in_decision(first, made, aside, waits.expect())
            if ruling.model:
                self._record_taint(recorder, in_force, placing, aside, waits, taint_as)
        settled = waits.expect()

        draft = partial(turn_draft, names, policies, ruling, seal, aside, linked)
        # The commit thread writes the bytes of a whole group one after the other: in half the time.
        if not recorder.try_hand_in(policies.turns_id, draft, settled, text):
            made = turn_record(policies, ruling, seal, ledger)
            recorder.hand_in_decision(names, made, aside, settled, linked, text)

    def record_placement(
        self, names: Names, in_force: InForce, placing: PlacementRuling, aside: Aside
    ) -> None:
        """Record a placement that no choice of a model follows; it is durable when this returns."""
        waits = BlockingWaiter()
        self.hand_in_placement(names, in_force, placing, aside, waits)
        waits.wait()

    def hand_in_placement(  # noqa: PLR0913 - what one entry needs
        self,
        names: Names,
        in_force: InForce,
        placing: PlacementRuling,
        aside: Aside,
        waits: DurabilityWaiter,
        *,
        is_refused: bool = False,
        taint_as: TaintName = None,
    ) -> None:
        """Hand in a placement that no choice of a model follows; a refused call taints nothing."""
        recorder = self.recorder()
        self._record_invalid(in_force, recorder)
        content = placing.facts.content
        seal, text = _seal_text(recorder, content, waits)
        made = placement_record(
            policies_in_force(in_force),
            placing,
            seal,
            self._home.identity.ledger,
            _hand_in_values(recorder, placing, waits),
        )
        if not is_refused:
            self._record_taint(recorder, in_force, placing, aside, waits, taint_as)
        recorder.hand_in_decision(names, made, aside, waits.expect(), text=text)

    def tell_invalid(self, in_force: InForce) -> None:
        """Record the policy's problems, if they are not recorded yet."""
        self._record_invalid(in_force, self.recorder())

    def recorder(self) -> Recorder:
        """Return the recorder; opens it on first use."""
        recorder = self._recorder
        if recorder is not None:
            return recorder
        with self._lock:
            if self._recorder is None:
                retain = self._files.settings().value.retain
                self._home.read_identity()
                opening = _opening(self._home, self._clock.now())
                self._recorder = Recorder(self._home, self._writer, opening, retain, redact)
            return self._recorder

    def _record_invalid(self, in_force: InForce, recorder: Recorder) -> None:
        """Record once that a policy file is invalid, and again when it is so in another way."""
        with self._lock:
            if in_force.invalid == self._told_invalid:
                return
            self._told_invalid = in_force.invalid
        for file in in_force.invalid:
            if file.entry_id:
                self._record_refused(file, recorder)
                continue
            path = str(self._home.path / file.name)
            # An entry cannot be taken back: a key that was written into a file must not get here.
            errors = tuple(hide_secrets(str(problem)) for problem in file.problems)
            event = _PolicyInvalid(path, errors, file.using_last_known_good)
            payload = _INVALID_FORM.encode(event)
            name, at = self._ids.new_id(), self._clock.now()
            recorder.record(Draft(POLICY_INVALID, name, "", at, payload))

    def _record_refused(self, file: InvalidFile, recorder: Recorder) -> None:
        """Record that a publication is not followed, unless another process did."""
        with closing(LedgerReader(self._home.database)) as reader:
            if any(each.entry.kind == POLICY_REFUSED for each in reader.with_ref(file.entry_id)):
                return
        payload = REFUSED_FORM.encode(
            PolicyRefused(file.name, tuple(each.message for each in file.problems))
        )
        names = (self._ids.new_id(), file.entry_id, self._clock.now())
        recorder.record(Draft(POLICY_REFUSED, *names, payload))

    def _record_taint(
        self,
        recorder: Recorder,
        in_force: InForce,
        placing: PlacementRuling,
        aside: Aside,
        waits: DurabilityWaiter,
        taint_as: TaintName,
    ) -> None:
        """Record that a session now holds text that must stay; a preview records no taint.

        INVARIANT: no text that must stay is answered before its taint is durable. A taint that was
        refused by the disk holds until this process ends; the next such text records it again.
        """
        facts = placing.facts
        is_held = facts.taint is not None and facts.taint.stays_here
        is_recorded = is_held and not self._unrecorded
        if aside.is_preview or not facts.session_id or is_recorded:
            return
        policy = in_force.placement.policy
        # A worker's turn is placed in its planner's session.
        is_worker = bool(aside.session_id) and aside.session_id != facts.session_id
        rule_id = taint_rule(policy, placing, is_worker=is_worker)
        zones = () if rule_id else taint_zones(policy, placing, is_worker=is_worker)
        if rule_id or zones:
            session_id = (taint_as() if taint_as is not None else "") or facts.session_id
            names = Names(self._ids.new_id(), session_id, self._clock.now())
            taint = Taint(facts.question_id, rule_id or STAY_WITHIN, zones or UNSET)
            self._unrecorded.add(session_id)
            done = partial(self._unrecorded.discard, session_id)
            recorder.hand_in(taint_draft(names, taint), _TaintWaiter(waits.expect(), done))
            self._taints.note(session_id, taint)

    def _store_text(self, text: str | Sealed) -> Sealed:
        """Keep a text, wait until that is durable, and give its seal."""
        if isinstance(text, Sealed):
            return text
        waits = BlockingWaiter()
        seal = self.recorder().hand_in_text(text, waits)
        waits.wait()
        return seal


def _hand_in_values(
    recorder: Recorder, placing: PlacementRuling, waits: DurabilityWaiter
) -> Sealed | UnsetType:
    """Hand in the masked values of a placement, and return their seal."""
    masking = placing.facts.masking
    values = UNSET if masking is UNSET else masking.values
    return recorder.hand_in_text(values, waits) if isinstance(values, str) else values


def _seal_text(
    recorder: Recorder, text: str | Sealed, waits: DurabilityWaiter
) -> tuple[Sealed, KeptText | None]:
    """Return the seal of an entry's text, and the text if it is to be handed in with the entry."""
    return (text, None) if isinstance(text, Sealed) else recorder.seal_text(text, waits)


class _TaintWaiter:
    """Waits for the entry of a taint on behalf of the turn that brought it."""

    __slots__ = ("_on_durable", "_turn")

    def __init__(self, turn: Waiter, on_durable: Callable[[], None]) -> None:
        self._turn = turn
        self._on_durable = on_durable

    def set_result(self, result: object, /) -> None:
        """Take note that the taint is durable."""
        self._on_durable()
        self._turn.set_result(result)

    def set_exception(self, error: BaseException, /) -> None:
        """Have the turn fail: its text may not be answered without its taint."""
        self._turn.set_exception(error)


class _PolicyInvalid(Struct, frozen=True, forbid_unknown_fields=True):
    policy_path: str
    errors: tuple[str, ...]
    using_last_known_good: bool


_INVALID_FORM = Form(_PolicyInvalid)


class PolicyRefused(Struct, frozen=True, forbid_unknown_fields=True):
    """A published policy that was not followed, and why."""

    publication: str
    errors: tuple[str, ...]


REFUSED_FORM = Form(PolicyRefused)


def _opening(home: Home, at: Instant) -> Draft:
    """Make a chain's first entry: by which key and program it was begun."""
    opened = _ChainOpened(home.keys[-1].id, home.keys[-1].public.hex(), apsw.sqlite_lib_version())
    return Draft("chain.opened", home.identity.ledger, "", at, _OPENED_FORM.encode(opened))


class _ChainOpened(Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str
    public_key: str
    sqlite_version: str


_OPENED_FORM = Form(_ChainOpened)
