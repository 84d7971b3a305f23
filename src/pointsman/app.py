"""The composition root: from a home folder to services that route, explain, replay and verify.

Time and ids are made here and handed down; nothing below this module looks at a clock.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw
from msgspec import Raw, Struct

from pointsman.errors import NotFound
from pointsman.kernel.canonical import ContentId, Form, content_id
from pointsman.kernel.content import Sealed, sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH, Clock, IdSource, Instant
from pointsman.kernel.record import (
    DECISION,
    Aside,
    DecisionRecord,
    Names,
    decision_draft,
    read_recorded,
)
from pointsman.kernel.snapshot import snapshot_draft
from pointsman.runs.backtest import Backtest, backtest
from pointsman.runs.export import BundleSummary, export_bundle
from pointsman.runs.gathering import Gathering
from pointsman.runs.recorder import Recorder
from pointsman.runs.replay import Progress, ReplayReport, replay_all, replay_named
from pointsman.runs.rules_test import Table, TableReport, run_table
from pointsman.runs.verify import LedgerReport, verify_ledger
from pointsman.signals.redaction import redacted
from pointsman.storage.home import Home, open_home
from pointsman.storage.policies import InForce, InvalidFile, PolicyFiles
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.sqlite.reading import LedgerReader, Stored
from pointsman.turns.decide import DECISION_VERSION, decide
from pointsman.turns.explain import Shown
from pointsman.turns.facts import (
    FACTS_FORM,
    GivenFacts,
    TurnFacts,
    with_seal,
)
from pointsman.turns.policy import POLICY_FORM, TurnPolicy, read_routing, turn_policy
from pointsman.turns.registry import read_models, registry
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM, Trace, TurnOutcome
from pointsman.version import VERSION

DEFAULT_HOME = "~/.pointsman"
TURN = DECISION + "turn"
POLICY_INVALID = "event.routing.policy_invalid"

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

Given = tuple[bytes, str]
"""The bytes of a file, and the name to show."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """Give the present instant."""
        return Instant(time.time_ns() // 1000)


class Ulids:
    """Ids that sort by when they were made: 48 bits of milliseconds, 80 bits that only grow."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """Give an id larger than every one given before."""
        fresh = (self._clock.now() // 1000 << 80) | secrets.randbits(80)
        with self._lock:
            self._last = number = fresh if fresh > self._last else self._last + 1
        return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def home_path(given: str | None = None) -> Path:
    """Give the home folder: the one given, else POINTSMAN_HOME, else ~/.pointsman."""
    return Path(given or os.environ.get("POINTSMAN_HOME") or DEFAULT_HOME).expanduser().absolute()


class Pointsman:
    """One home, opened. Nothing is written before the first decision is recorded."""

    def __init__(
        self,
        home: Path,
        *,
        create: bool = True,
        writer: str = "cli",
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self.home: Home = open_home(home, create=create)
        self.clock: Clock = clock or SystemClock()
        self.ids: IdSource = ids or Ulids(self.clock)
        self._writer_name = writer
        self._files = PolicyFiles(self.home)
        self._gathering = Gathering(self.home, self._files)
        self._recorder: Recorder | None = None
        self._told_invalid: tuple[InvalidFile, ...] = ()
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write and sign what was handed in, and let go of the home."""
        with self._lock:
            recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()

    def in_force(self) -> InForce:
        """Give the policy in force and what is wrong with the files it came from."""
        return self._files.in_force()

    def reload(self) -> InForce:
        """Read every policy file anew, whatever its time and size say."""
        return self._files.reload()

    def candidate_policy(self, routing: Given, models: Given | None = None) -> TurnPolicy:
        """Read a policy that is not in force; without `models` it rests on those of the home."""
        if models is None:
            known = self._files.known(self._files.in_force().models)
        else:
            known = registry(read_models(*models), self._files.prices.price)
        user_home = str(Path.home())
        return turn_policy(read_routing(*routing, known, user_home), known, user_home)

    def test_rules(self, table: Table) -> TableReport:
        """Run a table of expected decisions against the policy in force; records nothing."""
        return run_table(table, self._files.in_force().ready, self.given_facts)

    def facts(self, message: str) -> TurnFacts:
        """Gather what a decision about this message may look at, here and now."""
        return self._gathering.facts(message, self.clock.now())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be looked at when facts were gathered last."""
        return self._gathering.warnings

    def given_facts(self, given: GivenFacts) -> TurnFacts:
        """Give the exact facts of what a caller wrote; neither clock nor records are looked at."""
        return self._gathering.given_facts(given)

    def route(
        self,
        facts: TurnFacts,
        *,
        session_id: str = "",
        is_preview: bool = False,
        record: bool = True,
    ) -> Shown:
        """Decide a turn and, unless told otherwise, record it durably before this returns."""
        in_force = self._files.in_force()
        started = time.perf_counter_ns()
        outcome, trace = decide(in_force.ready, facts)
        elapsed_us = (time.perf_counter_ns() - started) // 1000
        names = Names(self.ids.new_id(), self.ids.new_id(), self.clock.now())
        aside = Aside(elapsed_us, self.ids.new_id(), session_id, is_preview, VERSION)
        at, facts_id = names.at, self._facts_id(facts)
        if record:
            at = self._record(names, _Turn(in_force, facts, outcome, trace, aside))
        return Shown(
            turn_id=names.ref,
            session_id=session_id,
            decision_id=names.id,
            at=at,
            policy_id=in_force.policy_id,
            facts_id=facts_id,
            decision_version=DECISION_VERSION,
            is_preview=is_preview,
            elapsed_us=elapsed_us,
            outcome=outcome,
            trace=trace,
        )

    def _facts_id(self, facts: TurnFacts) -> ContentId:
        """Name facts as they are recorded, or would be."""
        message = facts.message
        seal = message if isinstance(message, Sealed) else sealed(message, self.home.content_key())
        return FACTS_FORM.id(with_seal(facts, seal))

    def shown(self, name: str = "last") -> Shown:
        """Give a recorded turn decision by its id, its turn's id, or `last`."""
        return _shown(self._decision(name))

    def replay(self, names: Sequence[str]) -> ReplayReport:
        """Re-run recorded decisions by id or turn."""
        self._check_recorded()
        with told_errors(self.home.database):
            return replay_named(self.home, names)

    def replay_all(
        self, since: Instant = EPOCH, *, workers: int = 1, progress: Progress | None = None
    ) -> ReplayReport:
        """Re-run every recorded decision since an instant."""
        if not self.home.database.exists():
            return ReplayReport(0, 0, 0, ())
        with told_errors(self.home.database):
            return replay_all(self.home, since, workers=workers, progress=progress)

    def backtest(
        self,
        policy: TurnPolicy,
        since: Instant = EPOCH,
        *,
        previews: bool = True,
        progress: Progress | None = None,
    ) -> Backtest:
        """Decide the recorded turns again under another policy; records nothing."""
        with told_errors(self.home.database):
            return backtest(self.home, policy, since, previews=previews, progress=progress)

    def verify(self, progress: Callable[[int], None] | None = None) -> LedgerReport:
        """Check chains, checkpoints and signatures."""
        return verify_ledger(self.home, progress)

    def export(self, target: Path) -> BundleSummary:
        """Write a bundle that another machine can verify."""
        self._check_recorded()
        return export_bundle(self.home, target)

    def _decision(self, name: str) -> Stored:
        self._check_recorded()
        with told_errors(self.home.database), closing(LedgerReader(self.home.database)) as ledger:
            if name == "last":
                found = [each for each in (ledger.newest(TURN),) if each is not None]
            else:
                found = [*ledger.with_id(name), *ledger.with_ref(name)]
        turns = [each for each in found if each.entry.kind == TURN]
        if not turns:
            raise NotFound(f"no turn is recorded as `{name}`")
        return turns[0]

    def _check_recorded(self) -> None:
        if not self.home.database.exists():
            raise NotFound(
                "nothing is recorded yet",
                where=str(self.home.path),
                hint="record a decision first, with `pointsman route`",
            )

    def _recording(self) -> Recorder:
        with self._lock:
            if self._recorder is None:
                retain = self._files.settings().value.retain
                opening = _opening(self.home, self.clock.now())
                self._recorder = Recorder(self.home, self._writer_name, opening, retain, redacted)
            return self._recorder

    def _record_invalid(self, in_force: InForce, recorder: Recorder) -> None:
        """Record once that a policy file is invalid, and again when it is so in another way."""
        with self._lock:
            if in_force.invalid == self._told_invalid:
                return
            self._told_invalid = in_force.invalid
        for file in in_force.invalid:
            path = str(self.home.path / file.name)
            errors = tuple(str(problem) for problem in file.problems)
            event = _PolicyInvalid(path, errors, file.using_last_known_good)
            payload = _INVALID_FORM.encode(event)
            recorder.append(
                Draft(POLICY_INVALID, self.ids.new_id(), "", self.clock.now(), payload)
            ).result()

    def _record(self, names: Names, turn: _Turn) -> Instant:
        """Record a turn: its text, its policy if that is new, and the decision itself.

        Gives the recorded instant: a chain's time never goes back, so it may be later than asked.
        """
        recorder = self._recording()
        self._record_invalid(turn.in_force, recorder)
        message = turn.facts.message
        seal, kept = (message, None) if isinstance(message, Sealed) else recorder.keep(message)
        facts = FACTS_FORM.encode(with_seal(turn.facts, seal))
        record = DecisionRecord(
            kind="turn",
            decision_version=DECISION_VERSION,
            policy_id=turn.in_force.policy_id,
            facts_id=content_id(facts),
            snapshot_ids={},
            outcome=Raw(OUTCOME_FORM.encode(turn.outcome)),
            trace=Raw(TRACE_FORM.encode(turn.trace)),
        )
        recorder.ensure_snapshot(
            record.policy_id,
            lambda: snapshot_draft(
                POLICY_FORM.make(
                    turn.in_force.ready.policy, self.home.identity.ledger, recorder.key
                ),
                names.at,
            ),
        )
        # INVARIANT: no decision is recorded whose text could still be lost.
        if kept is not None:
            kept.result()
        return recorder.append(decision_draft(names, record, turn.aside, facts)).result().entry.at


class _PolicyInvalid(Struct, frozen=True, forbid_unknown_fields=True):
    policy_path: str
    errors: tuple[str, ...]
    using_last_known_good: bool


_INVALID_FORM = Form(_PolicyInvalid)


class _Turn(Struct, frozen=True):
    in_force: InForce
    facts: TurnFacts
    outcome: TurnOutcome
    trace: Trace
    aside: Aside


def _opening(home: Home, at: Instant) -> Draft:
    """Make a chain's first entry: by which key and program it was begun."""
    opened = _ChainOpened(home.keys[-1].id, home.keys[-1].public.hex(), apsw.sqlite_lib_version())
    return Draft("chain.opened", home.identity.ledger, "", at, _OPENED_FORM.encode(opened))


class _ChainOpened(Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str
    public_key: str
    sqlite_version: str


_OPENED_FORM = Form(_ChainOpened)


def _shown(stored: Stored) -> Shown:
    entry = stored.entry
    _, record, aside = read_recorded(entry.payload)
    return Shown(
        turn_id=entry.ref,
        session_id=aside.session_id,
        decision_id=entry.id,
        at=entry.at,
        policy_id=record.policy_id,
        facts_id=record.facts_id,
        decision_version=record.decision_version,
        is_preview=aside.is_preview,
        elapsed_us=aside.elapsed_us,
        outcome=OUTCOME_FORM.decode(bytes(record.outcome)),
        trace=TRACE_FORM.decode(bytes(record.trace)),
    )
