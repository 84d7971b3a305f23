"""The tools of one answer: checked, allowed, run in order; readers and workers side by side.

Every call that a model makes is answered exactly once, by a result or by the reason there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.kernel.instant import SECOND, Instant
from pointsman.providers.messages import Text, ToolResult, ToolUse
from pointsman.sessions import effects
from pointsman.sessions.delegate_call import (
    DELEGATE,
    REQUEST_CONTEXT,
    DelegateResult,
    Delegation,
    included_items,
    read_context_request,
    read_delegation,
)
from pointsman.sessions.effects import Steps, ToolRun
from pointsman.sessions.events.calls import (
    ToolCalled,
    ToolCompleted,
    ToolConfirmationRequested,
    ToolConfirmationResolved,
    ToolErrorClass,
    ToolFailed,
    ToolInputInvalid,
)
from pointsman.sessions.events.delegation import InsufficientContextRequest
from pointsman.sessions.include import resolve_context
from pointsman.sessions.message import Metadata, SessionMessage, Status
from pointsman.sessions.tool import (
    ConfirmationRequest,
    PendingConfirmation,
    Scope,
    ToolDefinition,
    ToolOutcome,
    input_problems,
    unknown_tool,
)

CONFIRM_S: Final = 300
CANCELLED: Final = "cancelled by the user"
_DENIED: Final[dict[str, tuple[ToolErrorClass, str]]] = {
    "deny": ("user_denied", "the user did not allow this"),
    "timeout": ("confirmation_timeout", "nobody answered in time whether this is allowed"),
}


class ToolScope(Struct, frozen=True):
    """The session that tools run for, and its tools."""

    session_id: str
    tools: Mapping[str, ToolDefinition]
    history: Callable[[], Sequence[SessionMessage]] = tuple
    """The messages a planner may hand to a worker."""
    is_worker: bool = False
    confirm_s: int = CONFIRM_S


class ToolCycle:
    """Runs the tools of one turn; remembers the permissions given for the session."""

    def __init__(self, scene: ToolScope, granted: Iterable[str] = ()) -> None:
        self._scope = scene
        self.granted = set(granted)
        self.messages: list[SessionMessage] = []
        self.calls = 0
        self.cut = 0
        """How many calls were cut short by a cancel."""
        self.is_cancelled = False
        self.context_request: InsufficientContextRequest | None = None
        self.last_event = ""

    def offer(self, tools: Iterable[ToolDefinition]) -> None:
        """Set the tools on offer; they change with the model."""
        self._scope = replace(self._scope, tools={each.name: each for each in tools})

    def run(self, uses: Sequence[ToolUse], parent: str) -> Steps[None]:
        """Run the calls of one answer; `parent` is the event of that answer."""
        self.last_event = parent
        self.messages = []
        delegations = [use for use in uses if use.name == DELEGATE and self._offers(use)]
        are_delegated = False
        waiting = [*uses]
        while waiting:
            together = yield from self._leading_reads(waiting)
            if len(together) > 1 and not self.is_cancelled and (yield from effects.can_continue()):
                del waiting[: len(together)]
                yield from self._side_by_side(together, parent)
                continue
            use = waiting.pop(0)
            if self.is_cancelled or not (yield from effects.can_continue()):
                yield from self._cancel(use, parent)
            elif use in delegations:
                if not are_delegated:
                    are_delegated = True
                    yield from self._delegate(delegations, parent)
            elif use.name == REQUEST_CONTEXT and self._offers(use):
                yield from self._request_context(use, parent)
            else:
                yield from self._run_one(use, parent)

    def _leading_reads(self, uses: Sequence[ToolUse]) -> Steps[tuple[ToolUse, ...]]:
        """Return the leading calls that only read and need no consent: their order does not matter.

        Nothing is asked where there are not two of them.
        """
        reading = [*takewhile(self._reads, uses)]
        found: list[ToolUse] = []
        for use in reading if len(reading) > 1 else ():
            request = yield from effects.confirmation_needed(use)
            if request is not None and request.scope_key not in self.granted:
                break
            found.append(use)
        return tuple(found)

    def _reads(self, use: ToolUse) -> bool:
        definition = self._scope.tools.get(use.name)
        if definition is None or use.name in (DELEGATE, REQUEST_CONTEXT):
            return False
        return definition.side_effects == "read" and not input_problems(use, definition)

    def _side_by_side(self, uses: tuple[ToolUse, ...], parent: str) -> Steps[None]:
        """Run calls at once; record and answer them in the order they were made."""
        told = {}
        for use in uses:
            told[use.id] = yield from self._record_call(use, self._scope.tools[use.name], parent)
        results = yield from effects.run_tools(uses)
        for use, ran in zip(uses, results, strict=True):
            yield from self._record_end(use, told[use.id], ran)

    def _offers(self, use: ToolUse) -> bool:
        return use.name in self._scope.tools

    def _run_one(self, use: ToolUse, parent: str) -> Steps[None]:
        definition = self._scope.tools.get(use.name)
        if definition is None:
            message = unknown_tool(use.name, self._scope.tools)
            yield from self._fail(use, parent, "not_found", message)
            return
        problems = input_problems(use, definition)
        if problems:
            yield from self._refuse(use, parent, problems)
            return
        request = yield from effects.confirmation_needed(use)
        if request is not None and request.scope_key not in self.granted:
            is_allowed = yield from self._ask_permission(use, definition, request, parent)
            if not is_allowed:
                return
        yield from self._run(use, definition, parent)

    def _run(self, use: ToolUse, definition: ToolDefinition, parent: str) -> Steps[None]:
        called_id = yield from self._record_call(use, definition, parent)
        ran = yield from effects.run_tool(use, definition)
        yield from self._record_end(use, called_id, ran)

    def _record_call(self, use: ToolUse, definition: ToolDefinition, parent: str) -> Steps[str]:
        self.calls += 1
        given = bytes(use.input).decode("utf-8", "surrogatepass")
        called = ToolCalled(use.id, use.name, given, len(use.input), definition.side_effects)
        return (yield from effects.tell(called, parent))

    def _record_end(self, use: ToolUse, called_id: str, ran: ToolRun) -> Steps[None]:
        if ran.is_cancelled:
            self.is_cancelled = True
            yield from self._fail(use, called_id, "cancelled", CANCELLED, ran.latency_ms)
        elif ran.outcome.error_class is not None:
            yield from self._record_failure(use, called_id, ran)
        else:
            yield from self._record_success(use, called_id, ran)

    def _record_success(self, use: ToolUse, called_id: str, ran: ToolRun) -> Steps[None]:
        outcome = ran.outcome
        completed = ToolCompleted(
            use.id,
            success=True,
            output_size_bytes=_size(outcome),
            latency_ms=ran.latency_ms,
            files_modified=outcome.files_modified,
            command_executed=outcome.command_executed or None,
        )
        self.last_event = yield from effects.tell(completed, called_id)
        for each in outcome.events:
            yield from effects.tell(each, self.last_event)
        yield from self._answer(ToolResult(use.id, outcome.content))

    def _record_failure(self, use: ToolUse, called_id: str, ran: ToolRun) -> Steps[None]:
        outcome = ran.outcome
        kind = outcome.error_class or "execution_error"
        failed = ToolFailed(use.id, kind, outcome.error_message, ran.latency_ms)
        self.last_event = yield from effects.tell(failed, called_id)
        content = outcome.content or (Text(outcome.error_message),)
        yield from self._answer(ToolResult(use.id, content, is_error=True))

    def _ask_permission(
        self,
        use: ToolUse,
        definition: ToolDefinition,
        request: ConfirmationRequest,
        parent: str,
    ) -> Steps[bool]:
        """Ask a human; a refusal is recorded and answered here."""
        started = yield from effects.now()
        asked = PendingConfirmation(
            id=(yield from effects.new_id()),
            use=use,
            side_effects=definition.side_effects,
            request=request,
            expires_at=Instant(started + self._scope.confirm_s * SECOND),
            session_id=self._scope.session_id,
            is_worker=self._scope.is_worker,
        )
        asked_id = yield from effects.tell(_confirmation_event(asked), parent)
        answered = yield from effects.ask_human(asked)
        if answered is None:
            self.is_cancelled = True
            yield from self._cancel(use, asked_id)
            return False
        is_allowed = answered.decision == "allow"
        # What a worker is allowed ends with it (companion §2.6).
        given: Scope = "once" if self._scope.is_worker else answered.scope
        scope = given if is_allowed else None
        resolved = ToolConfirmationResolved(use.id, asked.id, answered.decision, scope)
        self.last_event = yield from effects.tell(resolved, asked_id)
        if is_allowed:
            if scope == "session" and request.scope_key:
                self.granted.add(request.scope_key)
            return True
        kind, message = _DENIED[answered.decision]
        yield from self._fail(use, self.last_event, kind, message)
        return False

    def _delegate(self, uses: Sequence[ToolUse], parent: str) -> Steps[None]:
        understood: list[Delegation] = []
        for use in uses:
            try:
                understood.append(self._read_delegation(use, parent))
            except InputError as error:
                yield from self._refuse(use, parent, (error.message,))
        if not understood:
            return
        self.calls += len(understood)
        results = yield from effects.delegate(tuple(understood))
        for each, result in zip(understood, results, strict=True):
            if result.failure_mode == "cancelled_by_user":
                self.is_cancelled = True
                self.cut += 1
            yield from self._answer(_delegate_result(each, result))

    def _read_delegation(self, use: ToolUse, parent: str) -> Delegation:
        given, scene = read_delegation(use), self._scope
        handed = resolve_context(included_items(given.context), scene.history())
        return Delegation(use, given, handed, tuple(scene.tools.values()), parent)

    def _request_context(self, use: ToolUse, parent: str) -> Steps[None]:
        try:
            self.context_request = read_context_request(use)
        except InputError as error:
            yield from self._refuse(use, parent, (error.message,))
            return
        yield from self._answer(ToolResult(use.id, (Text("the planner is told"),)))

    def _refuse(self, use: ToolUse, parent: str, problems: tuple[str, ...]) -> Steps[None]:
        """Answer that an input does not fit the tool."""
        invalid = yield from effects.tell(ToolInputInvalid(use.name, problems), parent)
        message = f"the input of `{use.name}` does not fit: {'; '.join(problems)}"
        yield from self._fail(use, invalid, "validation_error", message)

    def _cancel(self, use: ToolUse, parent: str) -> Steps[None]:
        """Answer a call that never began."""
        self.is_cancelled = True
        yield from self._fail(use, parent, "cancelled", CANCELLED)

    def _fail(
        self, use: ToolUse, parent: str, kind: ToolErrorClass, message: str, latency_ms: int = 0
    ) -> Steps[None]:
        self.last_event = yield from effects.tell(
            ToolFailed(use.id, kind, message, latency_ms), parent
        )
        status: Status = "complete"
        if kind == "cancelled":
            status = "cancelled"
            self.cut += 1
        yield from self._answer(ToolResult(use.id, (Text(message),), is_error=True), status)

    def _answer(self, result: ToolResult, status: Status = "complete") -> Steps[None]:
        metadata = Metadata(status, parent_tool_use_id=result.tool_use_id)
        self.messages.append((yield from effects.keep("tool", (result,), metadata)))


def _confirmation_event(asked: PendingConfirmation) -> ToolConfirmationRequested:
    request = asked.request
    return ToolConfirmationRequested(
        tool_use_id=asked.use.id,
        tool_name=asked.use.name,
        side_effects=asked.side_effects,
        confirmation_request_id=asked.id,
        input_summary=request.input_summary,
        projected_modifications=request.projected_modifications,
        command_summary=request.command_summary or None,
        expires_at=asked.expires_at,
    )


def _delegate_result(delegation: Delegation, result: DelegateResult) -> ToolResult:
    text = Text(result.to_planner_json().decode("utf-8", "surrogatepass"))
    return ToolResult(delegation.use.id, (text,), is_error=not result.success)


def _size(outcome: ToolOutcome) -> int:
    return sum(
        len(each.text.encode("utf-8", "surrogatepass"))
        if isinstance(each, Text)
        else len(each.data)
        for each in outcome.content
    )
