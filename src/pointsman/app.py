"""The composition root: from a home folder to services that route, explain, replay and verify.

The clock and the source of ids are chosen here and handed down.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import UNSET
from msgspec.structs import replace

from pointsman.audit.recorded_turns import (
    check_recorded,
    has_recorded,
    recent_turns,
    shown_turn,
)
from pointsman.errors import InputError, LedgerUnavailable, NotFound, NotPublishing
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.instant import EPOCH, LATEST, Clock, IdSource, Instant, instant_text
from pointsman.kernel.record import Aside, Names
from pointsman.placement.decide import DECISION_VERSION as PLACEMENT_VERSION
from pointsman.placement.explain import ShownPlacement
from pointsman.placement.facts import FACTS_FORM as PLACEMENT_FACTS_FORM
from pointsman.placement.facts import GivenPlacement, PlacementFacts, Taint
from pointsman.placement.facts import with_seal as with_content_seal
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.gathering import Gathering
from pointsman.recording.health import HomeHealth, LiveHealth, transition_draft
from pointsman.recording.machine import SystemClock, Ulids
from pointsman.recording.own_detectors import OwnDetectors
from pointsman.recording.placing import PlacedTurn, PlacementGathering
from pointsman.recording.ruling import decide_placement, decide_turn, policies_in_force
from pointsman.recording.stops import StopKeeper, StopOrder, Stops
from pointsman.recording.taints import TaintedSession, Taints, tainted_sessions
from pointsman.signals.kinds import KINDS
from pointsman.storage.home import Home, home_path, open_home
from pointsman.storage.policies.ledger_policies import LedgerPolicies, opened_policies
from pointsman.storage.policies.policies import InForce
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.store_url import shared_store
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.health import HEALTH, HealthStore
from pointsman.turns.decide import DECISION_VERSION
from pointsman.turns.facts import (
    FACTS_FORM,
    GivenFacts,
    StopScope,
    TurnFacts,
    with_seal,
)
from pointsman.turns.policy import TurnPolicy, read_policy, turn_policy
from pointsman.turns.registry.availability import Transition
from pointsman.turns.registry.models import is_local, meant, model_id, provider_of, read_models
from pointsman.turns.registry.provider_state import Thresholds
from pointsman.turns.trace import Shown
from pointsman.version import VERSION

if TYPE_CHECKING:
    from pointsman.approvals.approvals import Approvals
    from pointsman.approvals.effects import Effects
    from pointsman.audit.backtest.backtester import BacktestCase
    from pointsman.audit.backtest.result import Backtest
    from pointsman.audit.bisection import Bisection
    from pointsman.audit.egress import EgressReport
    from pointsman.audit.export import BundleSummary
    from pointsman.audit.ledger_query import LedgerQuery, QueryResult, ReportPeriod
    from pointsman.audit.period_report import PeriodReport
    from pointsman.audit.receipts.shapes import Disclosure
    from pointsman.audit.replay import Progress, ReplayReport
    from pointsman.audit.verify import LedgerReport
    from pointsman.calls.services import CallServices
    from pointsman.conversations.conversations import Conversations
    from pointsman.jobs.agency import Agency
    from pointsman.jobs.agent_services import AgentServices
    from pointsman.jobs.jobs import Jobs
    from pointsman.kernel.entry import Draft
    from pointsman.operations.erasure.erase import Eraser
    from pointsman.operations.rules.cases import RuleTable, TableReport
    from pointsman.operations.rules.publishing import PublishResult
    from pointsman.storage.policies.publications import Candidate
    from pointsman.storage.policies.witness_settings import WitnessSettings
    from pointsman.turns.story.turn_story import TurnStory
    from pointsman.witnessing.rounds import Witnessing
    from pointsman.workflows.branching import Branching

__all__ = ["Given", "Pointsman", "SystemClock", "Ulids", "home_path"]

Given = tuple[bytes, str]
"""The bytes of a file, and the name to show."""


def _named_scope(in_force: InForce, name: str) -> tuple[str, str | None]:
    """Return the provider, and the model where one is named, or raise with the nearest names."""
    model, models = model_id(name), in_force.ready.models
    if model in models:
        return provider_of(model), model
    providers = [*dict.fromkeys([*in_force.models.providers, *map(provider_of, models)])]
    if name in providers:
        return name, None
    known = [*providers, *models]
    hint = meant(name, known) or f"known: {', '.join(known[:8])}"
    raise NotFound(f"there is no provider or model `{name[:100]}`", hint=hint)


class Pointsman:
    """One home, opened. Nothing is written before the first decision is recorded."""

    def __init__(
        self,
        home: Path,
        *,
        create: bool = True,
        store: str = "",
        writer: str = "cli",
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self.home: Home = open_home(home, create=create, store=store)
        self.clock: Clock = clock or SystemClock()
        self.ids: IdSource = ids or Ulids(self.clock)
        self.files = opened_policies(self.home, tuple(each.name for each in KINDS))
        self.stops = Stops(self.home)
        """The orders that forbid model calls."""
        self.gathering = Gathering(self.home, self.files, lambda: self.health, self.stops)
        self.taints = Taints(self.home.database)
        self._placements = PlacementGathering(self.home, self.taints, lambda: self.own_detectors)
        self.gather_placement = self._placements.gather
        self.mask_request = self._placements.mask_request
        """Gather the facts of the placement of a turn; each turn asks, so it is one call."""
        self.decision_recorder = DecisionRecorder(
            self.home, self.files, writer, (self.clock, self.ids), self.taints
        )
        self.calls: CallServices | None = None
        """Services of model calls where a gateway opened them; else conversations open theirs."""
        self._agents: AgentServices | None = None
        self._opening = threading.Lock()

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
        """Write and sign all entries handed in, and close the home."""
        if "jobs" in self.__dict__:
            self.jobs.close()
        if "conversations" in self.__dict__:
            self.conversations.release()
        self.gathering.close()
        if (own := self.__dict__.get("own_detectors")) is not None:
            own.close()
        if "health" in self.__dict__:
            self.health.close()
        self.taints.close()
        self.stops.close()
        if self._agents is not None:
            self._agents.close()
        self.files.close()
        self.decision_recorder.close()

    @property
    def effects(self) -> Effects:
        """The actions carried out for agents, once each."""
        return self._agent_services().effects

    @property
    def approvals(self) -> Approvals:
        """The requests that wait for a human's approval."""
        return self._agent_services().approvals

    @property
    def agency(self) -> Agency:
        """The agents of this home."""
        return self._agent_services().agency

    @property
    def branching(self) -> Branching:
        """The decisions of this home's workflows."""
        return self._agent_services().branching

    def _agent_services(self) -> AgentServices:
        """Open the services of agents at their first use; several threads may ask at once."""
        if self._agents is None:
            # Imported here: turns are routed without it, and should not wait for it.
            from pointsman.jobs.agent_services import open_agent_services  # noqa: PLC0415

            with self._opening:
                if self._agents is None:
                    opened = (self.home, self.decision_recorder, self.clock, self.ids)
                    self._agents = open_agent_services(*opened, self.stop_keeper)
        return self._agents

    @cached_property
    def own_detectors(self) -> OwnDetectors | None:
        """The detectors of the operator's own, read when first asked for; None without any."""
        detectors = self.files.settings().value.privacy.detectors
        return OwnDetectors(detectors) if detectors else None

    @property
    def stop_keeper(self) -> StopKeeper:
        """Orders stops, and ends them for approved requests."""
        sources = (self.clock, self.ids)
        return StopKeeper(self.home, self.decision_recorder, sources, self.stops)

    def order_stop(
        self, scope: StopScope, name: str, reason: str, by: str, *, cuts_calls: bool = False
    ) -> StopOrder:
        """Order that calls stop; obeyed by every process of the home within a second."""
        if not reason.strip():
            raise InputError("a stop needs its reason")
        if scope == "provider":
            provider, model = _named_scope(self.in_force(), name)
            if model is not None:
                raise InputError(f"`{name[:100]}` is a model: a stop is for its provider")
            name = provider
        elif (scope == "all") != (not name):
            raise InputError("name a tenant or a provider, or stop all without a name")
        return self.stop_keeper.order(scope, name, reason, by, cuts_calls=cuts_calls)

    @cached_property
    def health(self) -> LiveHealth:
        """The health of the providers, one truth for all processes of the home."""
        probe_after_s = self.files.settings().value.availability.probe_after_s
        process, thresholds = secrets.token_hex(8), Thresholds(probe_after_s=probe_after_s)
        kept_in = shared_store(self.home.store)
        if kept_in is None:
            store = HealthStore(self.home.place(HEALTH))
            return HomeHealth(self.clock, store, process, thresholds)
        # Imported here: it needs packages that a home of files does without.
        from pointsman.replicas.shared_health import PolledHealth  # noqa: PLC0415 - above
        from pointsman.replicas.shared_stores import open_shared_stores  # noqa: PLC0415 - see above

        shared = open_shared_stores(self.home, kept_in, self.files.settings().value, process)
        health = PolledHealth(self.clock, shared, thresholds)
        health.is_own = lambda provider: is_local(self.in_force().ready.models, provider)
        return health

    def clear_outage(self, name: str) -> tuple[Transition, ...]:
        """End the outage of a provider with its models, or of a model; recorded, for all to see."""
        provider, model = _named_scope(self.in_force(), name)
        changes = self.health.clear(provider, model)
        if changes and self.health.trouble:
            # Cleared in this process alone: the operator must know that others do not know of it.
            raise LedgerUnavailable(self.health.trouble)
        for each in changes:
            draft = transition_draft(self.ids.new_id(), each)
            self.decision_recorder.recorder().record(draft)
        return changes

    @cached_property
    def conversations(self) -> Conversations:
        """The conversations of this home; opened at their first use."""
        # Imported here: most commands hold no conversation, and should not wait for it.
        from pointsman.conversations.conversations import OpenHome, open_conversations  # noqa: PLC0415
        from pointsman.conversations.equipment import equip_from_home  # noqa: PLC0415

        parts = (
            self.home,
            self.files,
            self.decision_recorder,
            self.gathering,
            self.clock,
            self.ids,
        )
        ground = OpenHome(*parts, self.gather_placement, self.stops, self.mask_request)
        return open_conversations(
            ground, equip=equip_from_home, health=self.health, calls=self.calls
        )

    @cached_property
    def jobs(self) -> Jobs:
        """The jobs of this home; opened at their first use."""
        from pointsman.jobs.jobs import open_jobs  # noqa: PLC0415 - as above

        sources = (self.clock, self.ids)
        opened = (
            self.home,
            self.files,
            self.decision_recorder,
            sources,
            self.agency,
            self.approvals,
        )
        return open_jobs(*opened, conversations=lambda: self.conversations)

    def in_force(self) -> InForce:
        """Return the policy in force, with the problems of its files."""
        return self.files.in_force()

    def reload(self) -> InForce:
        """Read every policy file anew, whatever its time and size say."""
        return self.files.reload()

    def publishing(self) -> LedgerPolicies:
        """Return the published policies of a home that follows them, or raise `NotPublishing`."""
        if isinstance(self.files, LedgerPolicies):
            return self.files
        raise NotPublishing(hint="say `policy: {source: ledger}` in pointsman.yaml")

    def publish(self, given: Candidate, by: str) -> PublishResult:
        """Publish a policy for all replicas of this ledger; durable when this returns."""
        from pointsman.operations.rules.publishing import publish  # noqa: PLC0415 - as above

        files = self.publishing()
        sources = (self.clock, self.ids)
        done = publish(self.home, self.decision_recorder.recorder(), sources, given, by)
        files.look()
        return done

    def candidate_policy(self, routing: Given, models: Given | None = None) -> TurnPolicy:
        """Read a policy that is not in force; without `models` it rests on those of the home."""
        if models is None:
            known = self.files.known_models(self.files.in_force().models)
        else:
            known = self.files.known_models(read_models(*models))
        user_home = str(Path.home())
        tables = self.files.routing_tables()
        read = read_policy(*routing, known, user_home, tables=tables)
        return turn_policy(read, known, user_home, tables=tables)

    def test_rules(self, table: RuleTable) -> TableReport:
        """Run a table of expected decisions against the files; records nothing."""
        from pointsman.operations.rules.cases import run_on_files  # noqa: PLC0415 - as above

        return run_on_files(self.files, table)

    def facts(self, message: str, *, in_force: InForce | None = None) -> TurnFacts:
        """Gather the facts of a decision about this message, here and now.

        `in_force` here and below is the policy to go by, so that a caller of several of these goes
        by one; without it, the one in force now.
        """
        return self.gathering.facts(in_force or self.in_force(), message, self.clock.now())

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sources that could not be read when facts were gathered last."""
        return self.gathering.warnings

    def given_facts(self, given: GivenFacts, *, in_force: InForce | None = None) -> TurnFacts:
        """Return the exact facts of a caller's own; neither clock nor records are read."""
        return self.gathering.given_facts(in_force or self.in_force(), given)

    def route(
        self,
        facts: TurnFacts,
        *,
        session_id: str = "",
        is_preview: bool = False,
        record: bool = True,
        in_force: InForce | None = None,
        tenant: str = "",
    ) -> Shown:
        """Decide a turn and, unless told otherwise, record it durably before this returns.

        `tenant` is the one whose key asks.
        """
        in_force = in_force or self.in_force()
        about = PlacedTurn(self.ids.new_id(), session_id, self.clock.now())
        asked = self.gather_placement(in_force, facts, about)
        started = time.perf_counter_ns()
        ruling = decide_turn(policies_in_force(in_force), asked, facts)
        elapsed_us = (time.perf_counter_ns() - started) // 1000
        names = Names(self.ids.new_id(), about.turn_id, about.asked_at)
        owner = tenant or UNSET
        aside = Aside(elapsed_us, self.ids.new_id(), session_id, is_preview, VERSION, owner)
        at, facts_id = names.at, self._facts_id(ruling.facts)
        if record:
            at = self.decision_recorder.record(names, in_force, ruling, aside)
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
            outcome=ruling.outcome,
            trace=ruling.trace,
            placed=ruling.facts.placement,
        )

    def placement_facts(
        self, given: GivenPlacement, *, in_force: InForce | None = None
    ) -> PlacementFacts:
        """Return the exact facts of a placement that a caller wrote; no record is looked at."""
        return self._placements.given_facts(in_force or self.in_force(), given)

    def place(
        self,
        facts: PlacementFacts,
        *,
        record: bool = True,
        in_force: InForce | None = None,
        tenant: str = "",
    ) -> ShownPlacement:
        """Decide whether a question may leave this machine, and record the decision."""
        in_force = in_force or self.in_force()
        started = time.perf_counter_ns()
        placing = decide_placement(policies_in_force(in_force), facts)
        elapsed_us = (time.perf_counter_ns() - started) // 1000
        names = Names(self.ids.new_id(), facts.question_id, self.clock.now())
        owner = tenant or UNSET
        aside = Aside(elapsed_us, self.ids.new_id(), facts.session_id, False, VERSION, owner)  # noqa: FBT003 - no preview
        if record:
            self.decision_recorder.record_placement(names, in_force, placing, aside)
        seal = self._seal(facts.content)
        return ShownPlacement(
            decision_id=names.id,
            policy_id=in_force.placement_id,
            facts_id=PLACEMENT_FACTS_FORM.id(with_content_seal(facts, seal)),
            decision_version=PLACEMENT_VERSION,
            elapsed_us=elapsed_us,
            outcome=placing.outcome,
            trace=placing.trace,
        )

    def tainted(self) -> list[TaintedSession]:
        """Return the sessions that stay on this machine because of their content."""
        if not self.home.database.exists():
            return []
        with told_errors(self.home.database), closing(LedgerReader(self.home.database)) as ledger:
            return tainted_sessions(ledger)

    def look_at_taints(self) -> None:
        """Read the taints that other processes recorded, before the next decision."""
        self.taints.look()

    def clear_taint(self, session_id: str, reason: str) -> Taint:
        """Let a session leave again; recorded, with the reason given."""
        taint = self.taints.of(session_id)
        if taint is None:
            raise NotFound(f"the session `{session_id}` is not held here")
        self.decision_recorder.clear_taint(session_id, taint, reason)
        return taint

    def _seal(self, text: str | Sealed) -> Sealed:
        return text if isinstance(text, Sealed) else seal_text(text, self.home.content_key())

    def _facts_id(self, facts: TurnFacts) -> ContentId:
        """Name facts as they are recorded, or would be."""
        return FACTS_FORM.id(with_seal(facts, self._seal(facts.message)))

    @property
    def eraser(self) -> Eraser:
        """The eraser of this home, under its `retention:`."""
        from pointsman.operations.erasure.erase import Eraser  # noqa: PLC0415 - as above

        retention = self.files.settings().value.retention
        return Eraser(self.home, self.decision_recorder, (self.clock, self.ids), retention)

    def shown(self, name: str = "last", tenant: str | None = None) -> Shown:
        """Read a turn's first decision by its id, its turn's id, or `last`.

        Here and below, `tenant` is the one whose decisions may be seen; None for those of all.
        """
        return shown_turn(self.home.seen_by(tenant), name)

    def read_turn(self, name: str = "last", tenant: str | None = None) -> TurnStory:
        """Read all of a turn by its id, or by that of any decision or call of it; or `last`."""
        from pointsman.audit.turn_story import read_story  # noqa: PLC0415 - as above

        return read_story(self.home.seen_by(tenant), name)

    def receipt(
        self, name: str = "last", disclosure: Disclosure = "full", tenant: str | None = None
    ) -> bytes:
        """Return the signed receipt of a turn, found as `read_turn` finds it."""
        from pointsman.audit.receipts.receipt import turn_receipt  # noqa: PLC0415 - as above

        return turn_receipt(self.home.seen_by(tenant), name, disclosure)

    def recent(self, most: int, before: Instant = LATEST, tenant: str | None = None) -> list[Shown]:
        """Return the latest turn decisions before an instant, the newest first."""
        return recent_turns(self.home.seen_by(tenant), most, before)

    def has_recorded(self, kind: str) -> bool:
        """Tell whether an entry of this kind stands in the ledger."""
        return has_recorded(self.home, kind)

    def replay(self, names: Sequence[str], tenant: str | None = None) -> ReplayReport:
        """Re-run recorded decisions by id or turn."""
        from pointsman.audit.replay import replay_named  # noqa: PLC0415 - it loads every room

        check_recorded(self.home)
        with told_errors(self.home.database):
            return replay_named(self.home.seen_by(tenant), names)

    def replay_all(
        self,
        since: Instant = EPOCH,
        *,
        workers: int = 1,
        progress: Progress | None = None,
        tenant: str | None = None,
        from_scratch: bool = False,
    ) -> ReplayReport:
        """Re-run every recorded decision since an instant.

        Without one, long chains go on from where all came out the same before under this version,
        unless `from_scratch`.
        """
        from pointsman.audit.proof_of_progress import (  # noqa: PLC0415 - as above
            Proved,
            entries_before,
            keep_progress,
            read_progress,
            signed_sizes,
        )
        from pointsman.audit.replay import ReplayReport, replay_all  # noqa: PLC0415 - as above

        if not self.home.database.exists():
            return ReplayReport(0, 0, 0, ())
        with told_errors(self.home.database):
            home = self.home.seen_by(tenant)
            if since > EPOCH or tenant is not None:
                return replay_all(home, since, workers=workers, progress=progress)
            # INVARIANT: read first, so that all of it is replayed below.
            sizes = signed_sizes(home)
            proved = Proved() if from_scratch else read_progress(home, "replayed", VERSION)
            report = replay_all(home, workers=workers, progress=progress, replayed=proved.sizes)
        if not report.is_clean:
            return report
        whole_at = proved.whole_at or instant_text(self.clock.now())
        keep_progress(self.home, "replayed", VERSION, whole_at, sizes)
        return replace(report, before=entries_before(proved), whole_at=whole_at)

    def backtest(
        self,
        policy: TurnPolicy,
        since: Instant = EPOCH,
        *,
        previews: bool = True,
        progress: Progress | None = None,
        tenant: str | None = None,
    ) -> Backtest:
        """Decide the recorded turns again under another policy; records nothing."""
        from pointsman.audit.backtest.backtester import backtest  # noqa: PLC0415 - as above

        with told_errors(self.home.database):
            home = self.home.seen_by(tenant)
            return backtest(home, policy, since, previews=previews, progress=progress)

    def backtest_all(
        self,
        cases: Sequence[BacktestCase],
        since: Instant = EPOCH,
        *,
        previews: bool = True,
        progress: Progress | None = None,
        tenant: str | None = None,
    ) -> list[Backtest]:
        """Decide the recorded turns again under several policies, in one pass; records nothing."""
        from pointsman.audit.backtest.backtester import backtest_all  # noqa: PLC0415 - as above

        with told_errors(self.home.database):
            home = self.home.seen_by(tenant)
            return backtest_all(home, cases, since, previews=previews, progress=progress)

    def bisect(
        self,
        flip: str,
        since: Instant = EPOCH,
        *,
        progress: Progress | None = None,
        tenant: str | None = None,
    ) -> Bisection:
        """Find the entries that moved turns: `CONDITION moved from MODEL to MODEL`."""
        from pointsman.audit.bisection import bisect_flip, read_flip, rule_text  # noqa: PLC0415 - as above

        asked = read_flip(flip)
        condition = self.candidate_policy((rule_text(asked), "the condition"))
        with told_errors(self.home.database):
            home = self.home.seen_by(tenant)
            return bisect_flip(home, asked, condition, since, progress)

    def verify(
        self,
        progress: Callable[[int], None] | None = None,
        witnesses: WitnessSettings | None = None,
        seen: Sequence[str] = (),
        *,
        from_scratch: bool = False,
    ) -> LedgerReport:
        """Check chains, checkpoints and signatures, and compare them with the word of witnesses.

        `witnesses` are those a verifier believes in place of the home's own; `seen` are notes that
        were fetched from them. Long chains are read from where they were last proved, unless
        `from_scratch`.
        """
        from pointsman.audit.proof_of_progress import (  # noqa: PLC0415 - as above
            Proved,
            entries_before,
            keep_progress,
            read_progress,
        )
        from pointsman.audit.verify import verify_ledger  # noqa: PLC0415 - as above
        from pointsman.audit.witnessed import terms_of  # noqa: PLC0415 - as above

        believed = witnesses or self.files.settings().value.witnesses
        proved = Proved() if from_scratch else read_progress(self.home, "verified", VERSION)
        report = verify_ledger(
            self.home,
            progress,
            proved=proved.checkpoints,
            terms=terms_of(believed, seen),
            is_continued=bool(proved.checkpoints),
        )
        if not report.is_intact:
            return report
        whole_at = proved.whole_at or instant_text(self.clock.now())
        sizes = {each.chain: each.signed for each in report.chains}
        keep_progress(self.home, "verified", VERSION, whole_at, sizes)
        return replace(report, before=entries_before(proved), whole_at=whole_at)

    def witnessing(self) -> Witnessing:
        """Return what submits this home's checkpoints to its witnesses."""
        from pointsman.witnessing.rounds import Witnessing  # noqa: PLC0415 - few homes have any

        settings, sources = self.files.settings().value.witnesses, (self.clock, self.ids)
        return Witnessing(self.home, settings, self._record_durably, sources)

    def _record_durably(self, draft: Draft) -> None:
        self.decision_recorder.recorder().record(draft)

    def egress(self, since: Instant = EPOCH, tenant: str | None = None) -> EgressReport:
        """Report the turns that left this machine since an instant, and verify the ledger."""
        from pointsman.audit.egress import egress  # noqa: PLC0415 - as above

        check_recorded(self.home)
        with told_errors(self.home.database):
            return egress(self.home.seen_by(tenant), since)

    def count_entries(self, query: LedgerQuery, period: ReportPeriod) -> QueryResult:
        """Count entries of the ledger in a period."""
        from pointsman.audit.ledger_query import run_queries  # noqa: PLC0415 - as above

        check_recorded(self.home)
        with told_errors(self.home.database), closing(self.home.reader()) as reader:
            return run_queries(self.home, reader, [query], period)[0]

    def period_report(self, period: ReportPeriod) -> PeriodReport:
        """Report a period; the whole ledger is verified first."""
        from pointsman.audit.period_report import period_report  # noqa: PLC0415 - as above

        check_recorded(self.home)
        verified = self.verify(from_scratch=True)
        with told_errors(self.home.database):
            return period_report(self.home, period, verified, self.clock.now())

    def export(
        self, target: Path, since: Instant = EPOCH, until: Instant = LATEST
    ) -> BundleSummary:
        """Write a bundle that another machine can verify: the whole ledger, or a period of it."""
        from pointsman.audit.export import Period, export_bundle  # noqa: PLC0415 - as above

        check_recorded(self.home)
        return export_bundle(self.home, target, Period(since, until))
