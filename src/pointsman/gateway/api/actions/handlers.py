"""Action requests over HTTP: requested, voted on, cancelled; and the values they wrote."""

from __future__ import annotations

from contextlib import closing

from pointsman.agents.rules.actions import read_recorded_payload
from pointsman.approvals.record import no_such_action
from pointsman.approvals.view import action_value, to_proposal
from pointsman.errors import InputError
from pointsman.gateway.api.actions.shapes import ActionBody, NoteBody, SettleBody, VoteBody
from pointsman.gateway.api.agents.call import AgentCall, CallAnswer
from pointsman.gateway.serving.services import GatewayServices
from pointsman.governance.action import ActionRequest
from pointsman.kernel.document import Json
from pointsman.kernel.instant import EPOCH, instant_text
from pointsman.signals.withholding import Withholding
from pointsman.storage.stores.semantic import SEMANTIC, SemanticMemory, SemEntry


class ActionApi:
    """Serves requests for actions, and semantic memory."""

    def __init__(self, parts: GatewayServices) -> None:
        self._pointsman = parts.pointsman
        self._approvals = parts.pointsman.approvals
        self._keyring = parts.keyring

    def request_action(self, call: AgentCall) -> CallAnswer:
        """Ask for an action; it is recorded, and nothing is done."""
        given = call.read_body(ActionBody)
        value = call.body.value
        payload = value["payload"] if isinstance(value, dict) else None
        state = self._approvals.request(to_proposal(given, payload, call.trace_id), call.by)
        return self._answer(call, state.request.request_id)

    def list_actions(self, call: AgentCall) -> CallAnswer:
        """List the latest requests."""
        since, most = call.request.instant("since", EPOCH), call.request.limit()
        wanted = call.request.parameter("status")
        found = [
            each.request.request_id
            for each in reversed(self._approvals.list_since(since))
            if (wanted is None or each.status == wanted) and self._is_seen(call, each.request)
        ]
        rows = [self._value(call, each) for each in found[:most]]
        return CallAnswer({"actions": rows, "trace_id": call.trace_id})

    def show_action(self, call: AgentCall) -> CallAnswer:
        """Tell about one request."""
        return self._answer(call, self._name(call))

    def vote(self, call: AgentCall) -> CallAnswer:
        """Vote on a request; the vote that carries it has it carried out."""
        name, given = self._name(call), call.read_body(VoteBody)
        self._approvals.vote(name, given.vote, given.action_hash, call.by, given.note)
        return self.show_action(call)

    def cancel(self, call: AgentCall) -> CallAnswer:
        """AgentCall a request off."""
        name, given = self._name(call), call.read_body(NoteBody)
        self._approvals.cancel(name, call.by, given.note)
        return self.show_action(call)

    def execute(self, call: AgentCall) -> CallAnswer:
        """Execute an approved request that was not executed."""
        call.read_body(NoteBody)
        self._approvals.execute(self._name(call), call.by)
        return self.show_action(call)

    def settle(self, call: AgentCall) -> CallAnswer:
        """End a request whose executor died."""
        name, given = self._name(call), call.read_body(SettleBody)
        self._approvals.settle(name, call.by, given.how, given.note)
        return self.show_action(call)

    def _name(self, call: AgentCall) -> str:
        """Return the request that a path names, or raise as where there is none."""
        name = call.part("id")
        if not self._is_seen(call, self._approvals.state(name).request):
            raise no_such_action(name)
        return name

    def _is_seen(self, call: AgentCall, request: ActionRequest) -> bool:
        """Tell whether a request is one that the caller may see."""
        if call.reach is None:
            return True
        keys = self._keyring.keys(self._pointsman.clock.now()).known
        owner = keys.get(request.requester.id)
        return owner is not None and owner.principal.tenant == call.reach

    def _answer(self, call: AgentCall, name: str) -> CallAnswer:
        return CallAnswer({**self._value(call, name), "trace_id": call.trace_id}, subject=name)

    def _value(self, call: AgentCall, name: str) -> dict[str, object]:
        record = self._approvals.record(name)
        return action_value(record, self._pointsman.clock.now(), call.access)

    def list_namespace(self, call: AgentCall) -> CallAnswer:
        """List what a namespace of semantic memory holds."""
        name = _printable_part(call, "namespace")
        with closing(self._memory()) as memory:
            found, snapshot_id = memory.list_namespace(name), memory.snapshot_id(name)
        value = {
            "namespace": name,
            "sem_snapshot_hash": snapshot_id,
            "entries": [self._entry(call, each) for each in found],
            "trace_id": call.trace_id,
        }
        # A namespace that holds nothing could be called anything: it is not written down.
        return CallAnswer(value, subject=f"sem:{name}" if found else "")

    def show_value(self, call: AgentCall) -> CallAnswer:
        """Tell what a key of semantic memory holds, and where it came from."""
        namespace, key = _printable_part(call, "namespace"), _printable_part(call, "key")
        with closing(self._memory()) as memory:
            found = memory.get(namespace, key)
        value = {**self._entry(call, found), "trace_id": call.trace_id}
        return CallAnswer(value, subject=f"sem:{namespace}/{key}")

    def _entry(self, call: AgentCall, found: SemEntry) -> dict[str, object]:
        origin = found.provenance
        return {
            "namespace": found.namespace,
            "key": found.key,
            "version": found.version,
            "value": self._shown_value(call, read_recorded_payload(found.value or b"null")),
            "redacted": not call.is_full,
            "provenance": {
                "request_id": origin.request_id,
                "entry": origin.entry,
                "action_hash": origin.action_hash,
                "requested_by": origin.requested_by,
                "approved_by": origin.approved_by if call.is_full else None,
                "at": instant_text(origin.at),
            },
        }

    def _shown_value(self, call: AgentCall, value: Json) -> Json:
        """Return a value, redacted unless the caller may read all of it."""
        if call.is_full:
            return value
        return Withholding(self._pointsman.home.content_key()).value(value, "value").value

    def _memory(self) -> SemanticMemory:
        return SemanticMemory(self._pointsman.home.place(SEMANTIC))


def _printable_part(call: AgentCall, part: str) -> str:
    """Return a part of the path, which must be printable."""
    found = call.part(part)
    if not found.isprintable():
        raise InputError(f"a {part} is printable text")
    return found
