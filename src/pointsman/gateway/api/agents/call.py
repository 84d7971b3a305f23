"""One call of an agents' route: its caller, its trace, what of it they may see, how it is told.

Every call leaves an entry in the ledger before it is answered, also one that is refused; a caller
who cannot say who they are leaves none, or anybody could fill the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.actors import OWNER, actor_of
from pointsman.access.keys import ID_END, PREFIX, Principal
from pointsman.access.roles import Access
from pointsman.agents.codes import USER_MESSAGES
from pointsman.brainstate.view import JSON as NUMBERS
from pointsman.errors import (
    AccessError,
    ActionRefused,
    NotAuthenticated,
    PermissionDenied,
    PointsmanError,
)
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.access import access_of, admit, credential_of
from pointsman.gateway.serving.addresses import public_words
from pointsman.gateway.serving.http import (
    JSON,
    NO_STORE,
    Answer,
    Asked,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.telemetry.tracing import trace_context
from pointsman.governance.action import Actor
from pointsman.jobs.entries import CallEntry, Caller, call_draft
from pointsman.kernel.document import Document, DocumentLimits
from pointsman.kernel.entry import MAX_NAME
from pointsman.kernel.instant import instant_text
from pointsman.kernel.json_text import read_json
from pointsman.kernel.record import Names
from pointsman.kernel.schema import Check, conform

T = TypeVar("T")

MOST_NODES: Final = 2_000_000
"""A snapshot may hold tens of thousands of modules; the server bounds the bytes."""
LONGEST_TRACE_ID: Final = 200
LOCAL: Final = replace(OWNER, role="operator")
"""A caller on this machine while there is no key."""

DONE: Final = "done"

_UNNAMED: Final = Actor("", "", "")
_INFORMING: Final = frozenset({"ROUTER_NO_MATCH"})


class AgentCall:
    """A call that may be made; `access` says whether its answer is redacted."""

    tenant = ""
    """The tenant whose key asks; empty without one."""
    reach: str | None = None
    """The tenant whose records the call may read; None for those of all."""

    def __init__(
        self, request: ApiRequest, who: tuple[Actor, Access], trace_id: str, body: Document
    ) -> None:
        self.request = request
        self.by, self.access = who
        self.trace_id = trace_id
        self.body = body
        self.is_handed_on = False

    def hand_on(self) -> Caller:
        """Return the caller for a service that records the call's entry itself, however it ends."""
        self.is_handed_on = True
        return Caller(self.by, self.trace_id, tenant=self.tenant)

    @property
    def is_full(self) -> bool:
        """Whether nothing of the answer is withheld."""
        return self.access == "allowed"

    def part(self, name: str) -> str:
        """Return the part of the path that a name in the route stands for."""
        return self.request.part(name)

    def read_body(self, kind: type[T], *checks: Check[T]) -> T:
        """Read the body, or raise with all that is wrong with it."""
        return conform(self.body, kind, *checks)

    def without_trace(self) -> Document:
        """Return the body without its trace id."""
        value = self.body.value
        if isinstance(value, dict):
            value = {key: each for key, each in value.items() if key != "trace_id"}
        return Document(self.body.source, value, self.body.values, self.body.keys)


class CallAnswer(Struct, frozen=True):
    """An answer, and the snapshot or request it is about."""

    value: object
    subject: str = ""
    status: int = 200
    code: str = DONE


Work = Callable[[AgentCall], CallAnswer]


class AgentCalls:
    """Serves the calls of one gateway."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    def serve_with(
        self, work: Work, threads: Executor | None = None
    ) -> Callable[[ApiRequest], Awaitable[Answer]]:
        """Return a handler that runs `work` in a thread; long work has `threads` of its own."""

        async def serve(request: ApiRequest) -> Answer:
            loop = asyncio.get_running_loop()
            told = await loop.run_in_executor(threads, self._serve, request, work)
            return Answer(NUMBERS.encode(told.value), [JSON, NO_STORE], told.status)

        return serve

    def _serve(self, request: ApiRequest, work: Work) -> CallAnswer:
        """Admit a call, do its work, and leave its entry; raise where the caller is unknown."""
        asked = request.asked
        trace_id = _header_trace(asked) or self._parts.pointsman.ids.new_id()
        # The gateway refuses an unknown caller: it counts them, and answers all alike.
        by, access = self._admit(request)
        call = None
        try:
            if isinstance(access, PermissionDenied):
                raise access
            body = _body(asked)
            trace_id = _body_trace(body) or trace_id
            call = AgentCall(request, (by, access), trace_id, body)
            owner = self._principal(by)
            if owner is not None:
                call.tenant, call.reach = owner.tenant, owner.agents_reach
            told = work(call)
        except PointsmanError as error:
            told = self._refuse(error, trace_id)
        if call is None or not call.is_handed_on:
            self._record(CallEntry(request.route.call_name, by, trace_id, told.subject, told.code))
        return told

    def _admit(self, request: ApiRequest) -> tuple[Actor, Access | PermissionDenied]:
        """Return the caller, with their access or the reason it is denied.

        While there is no key, this machine may work; where something is governed it needs a name.
        """
        asked, route = request.asked, request.route
        try:
            caller = admit(self._parts, asked, route)
            if not caller.is_anonymous:
                return actor_of(caller), access_of(caller, route.roles)
        except NotAuthenticated:
            raise
        except AccessError as error:
            return self._key_owner(asked), PermissionDenied(error.message, hint=error.hint)
        if not route.is_keyless:
            raise NotAuthenticated(hint="this needs the admin token, or a key made for a role")
        return LOCAL, route.roles.of("operator")

    def _key_owner(self, asked: Asked) -> Actor:
        """Return the owner of a valid key that does not allow this call."""
        name = (credential_of(asked) or "")[len(PREFIX) : ID_END]
        known = self._parts.keyring.keys(self._parts.pointsman.clock.now()).known.get(name)
        return _UNNAMED if known is None else actor_of(known.principal)

    def _principal(self, by: Actor) -> Principal | None:
        """Return who a key stands for; None for the admin token and without a key."""
        known = self._parts.keyring.keys(self._parts.pointsman.clock.now()).known.get(by.id)
        return None if known is None else known.principal

    def _refuse(self, error: PointsmanError, trace_id: str) -> CallAnswer:
        now = instant_text(self._parts.pointsman.clock.now())
        return CallAnswer(refusal_value(error, trace_id, now), "", error.http_status, error.code)

    def _record(self, told: CallEntry) -> None:
        """Make the call's entry durable; without it there is no answer."""
        pointsman = self._parts.pointsman
        ref = told.subject if len(told.subject) <= MAX_NAME else ""
        names = Names(pointsman.ids.new_id(), ref, pointsman.clock.now())
        pointsman.decision_recorder.recorder().record(call_draft(names, told))


def refusal_value(error: PointsmanError, trace_id: str, timestamp: str) -> dict[str, object]:
    """Return an error in companion §4.5's shape: one fixed sentence a code, details beside it."""
    severity = "error" if error.http_status >= 500 else "warning"
    if error.code in _INFORMING:
        severity = "info"
    reason = error.reason if isinstance(error, ActionRefused) else ""
    message, where, hint = public_words(error)
    told = (reason, where, message, hint)
    return {
        "error_code": error.code,
        "status": error.http_status,
        "severity": severity,
        "user_message": USER_MESSAGES.get(error.code, message),
        "developer_message": ": ".join(each for each in told if each),
        "meta": {"trace_id": trace_id, "timestamp": timestamp},
    }


def _body(asked: Asked) -> Document:
    """Read a body as JSON; none at all is an empty mapping."""
    limits = DocumentLimits(bytes=max(len(asked.body), 2), nodes=MOST_NODES)
    return read_json(asked.body or b"{}", "the body", limits)


def _body_trace(body: Document) -> str:
    """Return the trace that a body names; an unusable one is refused where the body is read."""
    found = body.value.get("trace_id") if isinstance(body.value, dict) else None
    return found if isinstance(found, str) and len(found) <= LONGEST_TRACE_ID else ""


def _header_trace(asked: Asked) -> str:
    found = trace_context(asked.headers)
    return "" if found is None else found.trace_id
