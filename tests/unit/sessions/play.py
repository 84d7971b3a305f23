"""Drives a conversation by hand: every effect is answered from a script, nothing is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from pointsman.access.book import Spent
from pointsman.calls.answer_agreement import read_opinion
from pointsman.calls.flow import CallResult, Fallback, Record, RecordPlacement
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd
from pointsman.placement.compiled import compile_policy
from pointsman.placement.facts import CountedBy, LocalModel, PlacementFacts
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.providers.messages import (
    Block,
    Image,
    OutputFormat,
    Response,
    StopReason,
    Text,
    ToolUse,
    Usage,
)
from pointsman.recording.ruling import Policies
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.delegate_call import (
    CONTEXT_TOOL,
    DelegateResult,
    Delegation,
    worker_tools,
)
from pointsman.sessions.effects import (
    AskEgress,
    AskHuman,
    AskRoute,
    CallModel,
    CancelledBy,
    CanContinue,
    Delegate,
    Effect,
    GatherPlacement,
    KeepMessage,
    ModelReply,
    NeedsConfirmation,
    NewId,
    Now,
    RouteAnswer,
    RunTool,
    RunTools,
    ShowAnswer,
    Steps,
    TellEvent,
    ToolRun,
)
from pointsman.sessions.events.session import CancelReason, SessionCreated
from pointsman.sessions.history import History
from pointsman.sessions.message import SessionMessage, check_message
from pointsman.sessions.prompts import worker_prompt
from pointsman.sessions.tool import (
    ConfirmationAnswer,
    ConfirmationRequest,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.turn import TurnEnd, TurnLimits, TurnPlan
from pointsman.sessions.turn_flow import run_turn
from pointsman.sessions.worker import WorkerOrder, run_worker
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.facts import Override, TurnFacts

T = TypeVar("T")
ID = ContentId("sha256:" + "0" * 64)
PICTURE = Image("base64", "aGk=", "image/png")


def answer(*blocks: Block | str, stop: StopReason = "end", cost: int = 10) -> ModelReply:
    """A whole answer of a model; texts may be given as they are."""
    content = tuple(Text(each) if isinstance(each, str) else each for each in blocks)
    return ModelReply(
        CallResult(is_done=True),
        Response("r", content, stop, Usage(5, 7)),
        latency_ms=3,
        spent=a_spending(cost),
    )


def wants(name: str, given: Mapping[str, Any] | None = None, *, id: str = "") -> ModelReply:  # noqa: A002 - the field's name
    """An answer that asks for one tool."""
    return answer(a_use(name, given, id=id), stop="tool_use")


def a_use(name: str, given: Mapping[str, Any] | None = None, *, id: str = "") -> ToolUse:  # noqa: A002 - the field's name
    return ToolUse(id or f"tu_{name}", name, Raw(msgspec.json.encode(given or {})))


def failure(error_class: str = "server_error", *, text: str = "") -> ModelReply:
    content = (Text(text),) if text else ()
    called = CallResult(is_done=False, error_class=error_class, has_content=bool(text))
    return ModelReply(called, Response("", content, "error", Usage()), error_message="it broke")


def a_spending(cost: int = 10) -> Spent:
    return Spent("m", "", "s", "", 5, 7, 0, 0, MicroUsd(cost), "prices-1", False, Instant(0))


def a_tool(name: str, **schema: Any) -> ToolDefinition:
    given = {"type": "object", **schema}
    return ToolDefinition(name, f"does {name}", Raw(msgspec.json.encode(given)), "write")


def nth(kind: type[Effect], number: int = 1) -> Callable[[Effect], bool]:
    """At the n-th effect of a kind."""
    seen: list[Effect] = []

    def is_it(effect: Effect) -> bool:
        if isinstance(effect, kind):
            seen.append(effect)
        return isinstance(effect, kind) and len(seen) == number

    return is_it


class Play:
    """A hand that drives. What happened stands in its lists, in order."""

    def __init__(
        self,
        *replies: ModelReply,
        tools: Mapping[str, ToolOutcome] | None = None,
        needs: Mapping[str, ConfirmationRequest] | None = None,
        says: Sequence[ConfirmationAnswer] = (),
        route: RouteAnswer = "none",
        egress: bool = True,
        workers: Mapping[str, Sequence[ModelReply]] | None = None,
        cancel_at: Callable[[Effect], bool] = lambda _effect: False,
        reason: CancelReason = "user_cancel",
        on: Callable[[Effect], None] = lambda _effect: None,
    ) -> None:
        self.replies = [*replies]
        self.tools = tools or {}
        self.needs = needs or {}
        self.says = [*says]
        self.route = route
        self.egress = egress
        self.workers = workers or {}
        self.cancel_at = cancel_at
        self.reason: CancelReason = reason
        self.on = on
        self.is_cancelled = False
        self.told: list[tuple[str, Payload, str]] = []
        self.log: list[str] = []
        self.records: list[Record] = []
        self.calls: list[CallModel] = []
        self.ran: list[str] = []
        self.messages: list[SessionMessage] = []
        self.results: list[DelegateResult] = []
        self.hires: list[WorkerOrder] = []
        self.policies: Policies | None = None
        self._count = 0

    def turn(self, turn: TurnPlan) -> TurnEnd:
        self.policies = turn.policies
        self.messages = [*turn.history]
        return self.run(run_turn(turn))

    def run(self, steps: Steps[T]) -> T:
        reply: object = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return] # what the flow returns
            self.on(effect)
            if self.cancel_at(effect):
                self.is_cancelled = True
            reply = self.answered(effect)

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count}"

    def answered(self, effect: Effect) -> object:  # noqa: C901, PLR0911, PLR0912 - one each
        match effect:
            case TellEvent():
                name = self.new("e")
                self.told.append((name, effect.payload, effect.parent))
                self.log.append(effect.payload.type)
                return name
            case Record():
                self.records.append(effect)
                self.log.append("route.decided" if effect.kind == "turn" else f"turn.{effect.kind}")
                return self.new("d")
            case RecordPlacement():
                self.log.append("placement")
                return self.new("d")
            case KeepMessage():
                message = SessionMessage(
                    self.new("m"),
                    "s",
                    "t",
                    effect.role,
                    effect.content,
                    effect.metadata,
                    Instant(0),
                )
                check_message(message, self.messages)
                self.messages.append(message)
                return message
            case CallModel():
                return self.called(effect)
            case ShowAnswer():
                self.log.append(f"shown {effect.model}")
                return None
            case RunTool():
                return self.run_tool(effect.use)
            case RunTools():
                return tuple(map(self.run_tool, effect.uses))
            case Delegate():
                self.results += [self.work(each) for each in effect.delegations]
                return tuple(self.results[-len(effect.delegations) :])
            case GatherPlacement():
                return asked()
            case CanContinue():
                return not self.is_cancelled
            case CancelledBy():
                return self.reason
            case NeedsConfirmation():
                return self.needs.get(effect.use.name)
            case AskHuman():
                return None if self.is_cancelled else self.says.pop(0)
            case AskRoute():
                return self.route
            case AskEgress():
                return self.egress
            case Now():
                return Instant(1_000_000)
            case NewId():
                return self.new("id")

    def called(self, effect: CallModel) -> ModelReply:
        self.calls.append(effect)
        if self.is_cancelled:
            cut = failure("cancelled", text="half an ans")
            return replace(cut, is_cancelled=True, spent=a_spending(4))
        reply = self.replies.pop(0)
        if not (effect.is_held and reply.called.is_done):
            return reply
        said = read_opinion(effect.model, reply.response, effect.request, b"key")
        return replace(reply, called=replace(reply.called, opinion=said))

    def run_tool(self, use: ToolUse) -> ToolRun:
        if self.is_cancelled:
            return ToolRun(ToolOutcome((), "cancelled"), 2, is_cancelled=True)
        self.ran.append(use.id)
        return ToolRun(self.tools.get(use.name, ToolOutcome((Text("ok"),))), 2)

    def work(self, work: Delegation) -> DelegateResult:
        """Run a worker with a hand of its own; what it tells its planner is told here."""
        assert self.policies is not None
        given = work.given
        offered, dropped = worker_tools(work.tools, given.allowed_tools)
        tools = (*offered, CONTEXT_TOOL)
        names = [each.name for each in tools]
        turn = a_turn(
            self.policies.turns,
            given.task,
            *work.handed.blocks,
            tools=tools,
            is_worker=True,
            delegate_tier=given.tier,
            requires_structured_output=given.output_schema is not None,
            system=lambda model: worker_prompt(
                model, given.task, work.handed.summary, names, given.output_schema
            ),
            output=None if given.output_schema is None else OutputFormat("json_schema"),
            most_output_tokens=given.max_tokens,
            session_id="w",
        )
        hire = WorkerOrder(work, turn, SessionCreated(None, "", None, ""), 3, dropped)
        self.hires.append(hire)
        hand = _Hand(self, *self.workers.get(given.task, ()), tools=self.tools)
        hand.is_cancelled, hand.reason = self.is_cancelled, self.reason
        hand.cancel_at = self.cancel_at
        result = hand.run(run_worker(hire))
        self.is_cancelled = self.is_cancelled or (hand.is_cancelled and hand.reason != "timeout")
        return result

    def of(self, kind: type[T]) -> list[T]:
        """Give the events of one kind."""
        return [payload for _, payload, _ in self.told if isinstance(payload, kind)]

    def parent_of(self, kind: type[Payload]) -> list[str]:
        """Give what the events of a kind follow from, by type."""
        types = {name: payload.type for name, payload, _ in self.told}
        return [
            types.get(parent, parent)
            for _, payload, parent in self.told
            if isinstance(payload, kind)
        ]


class _Hand(Play):
    """The hand of a worker."""

    def __init__(self, planner: Play, *replies: ModelReply, **more: Any) -> None:
        super().__init__(*replies, **more)
        self.planner = planner

    def answered(self, effect: Effect) -> object:
        if isinstance(effect, TellEvent) and effect.to_parent:
            return self.planner.answered(replace(effect, to_parent=False))
        found = super().answered(effect)
        if isinstance(effect, TellEvent | Record):
            self.planner.log.append(f"worker {self.log[-1]}")
        if isinstance(effect, CallModel):
            self.planner.calls.append(effect)
        if isinstance(effect, Record):
            self.planner.records.append(effect)
        return found


def asked(**changes: Any) -> PlacementFacts:
    facts = PlacementFacts(
        "t", "s", "hello", "auto", None, "", Instant(0), LocalModel("l:m", None, (), True), "c:big",
        "online", 5, CountedBy("given", False),
    )  # fmt: skip
    return replace(facts, **changes)


def a_turn(
    ready: CompiledTurnPolicy,
    message: str = "hello",
    *more: Text | Image,
    history: Sequence[SessionMessage] = (),
    tools: Sequence[ToolDefinition] = (),
    system: Callable[[str], str] = lambda _model: "be good",
    output: OutputFormat | None = None,
    granted: frozenset[str] = frozenset(),
    session_id: str = "s",
    most_calls: int = 50,
    most_output_tokens: int | None = None,
    fallback: Fallback = Fallback(),  # noqa: B008 - it is frozen
    override: str | None = None,
    **facts: Any,
) -> TurnPlan:
    """A turn that can begin; further keywords are facts."""
    given = TurnFacts(
        message,
        override=None if override is None else Override(override, override),
        has_images=any(isinstance(each, Image) for each in more),
        has_tool_definitions=bool(tools),
        has_system_prompt=True,
        estimated_input_tokens={"*": 9},
    )
    return TurnPlan(
        session_id=session_id,
        turn_id="t",
        content=(Text(message), *more),
        history=History(history),
        tools=tuple(tools),
        system=system,
        policies=Policies(compile_policy(placement_policy(BUILT_IN)), ID, ready, ID),
        asked=asked(),
        facts=replace(given, **facts),
        fallback=fallback,
        is_worker=bool(facts.get("is_worker", False)),
        output=output,
        granted=granted,
        limits=TurnLimits(most_calls, most_output_tokens),
    )
