"""Builds an action request from a proposal: checked, with sensitive data withheld."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pointsman.agents.rules.actions import read_payload, read_recorded_payload, target_of
from pointsman.approvals.record import ActionRecord
from pointsman.brainstate.trace import ActionWish
from pointsman.errors import DocumentError, InputError, SemPrivate
from pointsman.governance.action import (
    BY_USER,
    LONGEST_TEXT,
    LONGEST_WINDOW,
    MOST_EVIDENCE,
    QUORUM,
    SHORTEST_WINDOW,
    VOTE_WINDOW,
    ActionRequest,
    ActionType,
    Actor,
    OptIn,
    RequestOrigin,
    action_hash,
    approval_of,
    subject_of,
)
from pointsman.kernel.canonical import ContentId, canonical_json, content_id
from pointsman.kernel.document import Json
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.signals.withholding import Withholding
from pointsman.storage.home import Home


class ActionProposal(Struct, frozen=True):
    """An action as its requester proposes it. `request_id` is set where a job names its requests.

    `opt_in` is the reason why personal data may be stored as it is; it is recorded with the actor.
    """

    action_type: ActionType
    payload: Json
    justification: str = ""
    evidence: tuple[str, ...] = ()
    origin: RequestOrigin = BY_USER
    request_id: str = ""
    seeded_at: Instant | None = None
    window: int = VOTE_WINDOW
    opt_in: str = ""


def wish_proposal(wish: ActionWish, job_id: str, job_seed: str, trace_id: str) -> ActionProposal:
    """Return the wish of a brain state as a proposal in its job's name (004 §6).

    The wish's own id names the request: a job that is run again requests nothing twice.
    """
    return ActionProposal(
        wish.action_type,
        read_recorded_payload(wish.payload.encode()),
        wish.justification,
        origin=RequestOrigin("brainstate", wish.origin, job_id, job_seed, trace_id),
        request_id=wish.action_id,
        seeded_at=wish.timestamp_seeded,
    )


class RequestBuilder:
    """Builds the requests of one home."""

    def __init__(self, home: Home, sources: tuple[Clock, IdSource]) -> None:
        self._home = home
        self._clock, self._ids = sources

    def build(self, wanted: ActionProposal, by: Actor) -> tuple[ActionRequest, bytes]:
        """Return the request and the canonical bytes of its payload, or raise the problem."""
        _check(wanted)
        read_payload(wanted.action_type, wanted.payload)
        withholding = self._withholding(wanted.origin, keeps=bool(wanted.opt_in))
        kept = withholding.value(wanted.payload, "payload")
        texts, found = withholding.texts((wanted.justification, *wanted.evidence), "text")
        target, body = _target(wanted.action_type, kept.value), canonical_json(kept.value)
        now = self._clock.now()
        request = ActionRequest(
            request_id=wanted.request_id or self._ids.new_id(),
            action_type=wanted.action_type,
            target=target,
            payload_id=content_id(body),
            requester=by,
            origin=wanted.origin,
            justification=texts[0],
            evidence=texts[1:],
            required_approval_type=approval_of(wanted.action_type, target, wanted.origin),
            quorum=QUORUM,
            created_at=now,
            seeded_at=wanted.seeded_at,
            expires_at=Instant(now + wanted.window),
            subject=subject_of(wanted.action_type, target, content_id(body)),
            action_hash=ContentId(""),
            opt_in=self._opt_in(wanted, by),
            found=(*kept.found, *found),
        )
        return replace(request, action_hash=action_hash(request)), body

    def note(self, record: ActionRecord, note: str) -> str:
        """Return a note about a request as it may be recorded."""
        kept, _ = self._withholding(record.state.request.origin).texts((note,), "note")
        return kept[0]

    def _opt_in(self, wanted: ActionProposal, by: Actor) -> OptIn | None:
        if not wanted.opt_in:
            return None
        # The reason itself is no place for personal data, even where it allows some.
        kept, _ = self._withholding(wanted.origin).texts((wanted.opt_in,), "opt_in")
        return OptIn(by, kept[0])

    def _withholding(self, origin: RequestOrigin, *, keeps: bool = False) -> Withholding:
        return Withholding(self._home.content_key(), origin.job_seed, keeps=keeps)


def _check(wanted: ActionProposal) -> None:
    if not SHORTEST_WINDOW <= wanted.window <= LONGEST_WINDOW:
        raise InputError("a request stands for at least a second and at most 30 days")
    texts = (wanted.justification, wanted.opt_in, *wanted.evidence)
    if len(wanted.evidence) > MOST_EVIDENCE or max(map(len, texts)) > LONGEST_TEXT:
        limits = f"{MOST_EVIDENCE} pieces of evidence, {LONGEST_TEXT} characters each"
        raise InputError(f"a request has at most {limits}")


def _target(action_type: ActionType, payload: Json) -> str:
    try:
        return target_of(read_payload(action_type, payload))
    except DocumentError as error:
        raise SemPrivate(
            "personal data or a secret cannot name what an action is about",
            hint="name it by something else, or opt in and say why",
        ) from error
