"""The calls of conversations under placeholders: asked for once, and done again at the door."""

from __future__ import annotations

from collections.abc import Callable

from pointsman.calls.answering import write_request
from pointsman.conversations.services import OpenHome
from pointsman.providers.dialects.masked_body import MaskedBody
from pointsman.providers.messages import ModelRequest
from pointsman.providers.port import UpstreamError
from pointsman.recording.placing import MaskedRequest
from pointsman.storage.policies.policies import InForce

BodyMasker = Callable[[bytes], MaskedRequest]
"""Masks the body of a request, whatever dialect it is written in."""


def masker_for(
    opened: OpenHome, in_force: InForce, session_id: str, model: str
) -> BodyMasker | None:
    """Return what masks the requests to a model; None where it may see them as they are."""
    mask, known = opened.mask_request, in_force.ready.models.get(model)
    is_local = known is not None and known.location == "local"
    if mask is None or is_local or not in_force.placement.policy.masked_kinds:
        return None
    return lambda body: mask(in_force, session_id, body)


def masked_request(
    opened: OpenHome, in_force: InForce, session_id: str, request: ModelRequest
) -> Callable[[], MaskedRequest] | None:
    """Return what masks a request before its model is chosen."""
    mask = opened.mask_request
    if mask is None:
        return None

    def make() -> MaskedRequest:
        try:
            return mask(in_force, session_id, write_request("chat", request, ""))
        except UpstreamError:
            made = mask(in_force, session_id, b"{}")
            return MaskedRequest(
                MaskedBody(b"", {}, "the request cannot be written for it"), made.placeholders
            )

    return make
