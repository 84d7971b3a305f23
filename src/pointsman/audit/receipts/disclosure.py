"""Views of a recorded payload for receipts that hide some: commitments, or the outcome alone.

A commitment is a digest salted by the entry and the place, so equal texts do not show, and a text
cannot be guessed without the entry's salt. `_SHOWN` lists the members left in clear.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import msgspec
from msgspec import Raw

from pointsman.kernel.document import Json
from pointsman.kernel.record import DECISION

_SALT: Final = b"pointsman/receipt-salt/1\0"
_REDACTED: Final = b"pointsman/redacted/1\0"
_TEXT: Final = b"pointsman/text/1\0"

_SHOWN: Final = frozenset({
    "at", "attempts", "calibration_id", "candidate_model", "chosen_model", "code", "error_class",
    "error_code", "facts_id", "gate", "human_override", "kind", "location", "model",
    "network_state", "outcome", "policy", "policy_action", "policy_id", "pricing_version",
    "privacy_level", "product_version", "route", "router_version", "status", "step", "stop_reason",
    "terminated_at", "unknown_capabilities", "validation_failure", "verdict",
})  # fmt: skip
"""The members whose texts say nothing of rules, texts or people."""

_LEAST: Final = frozenset({
    "chosen_model", "decision", "decision_version", "detail", "error_code", "facts_id",
    "fallback_allowed", "gate", "kind", "model", "outcome", "policy_id", "route", "router_version",
    "status", "winner_index",
})  # fmt: skip

_DECIDED: Final = ("decision.outcome.reason", "decision.outcome.rule_id")

_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def entry_salt(key: bytes, entry_hash: bytes) -> bytes:
    """Return the salt of an entry, from which that of each of its commitments is made."""
    return hmac.digest(key, _SALT + entry_hash, "sha256")


def text_salt(key: bytes, seal: str) -> bytes:
    """Return the salt of a text, the same in every receipt that speaks of it."""
    return hmac.digest(key, _SALT + seal.encode(), "sha256")


def text_commitment(salt: bytes, text: str) -> str:
    """Commit to a text: who holds the text and the salt can open it."""
    return hashlib.sha256(_TEXT + salt + text.encode("utf-8", "surrogatepass")).hexdigest()


def redacted_view(kind: str, payload: bytes, salt: bytes) -> Raw:
    """Return a payload whose rule names and texts are commitments, but for those that decided."""
    value = msgspec.json.decode(payload)
    shown = (*_DECIDED, _winner(value)) if kind.startswith(DECISION) else ()
    return Raw(_ENCODER.encode(_hide(value, "", "", salt, shown)))


def minimal_view(payload: bytes) -> Raw:
    """Return the outcome of a payload alone."""
    value = msgspec.json.decode(payload)
    found = {name: _least(each) for name, each in value.items() if name in _LEAST}
    return Raw(_ENCODER.encode(found))


def _winner(value: dict[str, dict[str, dict[str, Json]]]) -> str:
    """Return the place of the slot that decided; empty where none did."""
    place = value["decision"]["outcome"].get("winner_index", -1)
    return f"decision.trace.chain[{place}]" if isinstance(place, int) and place >= 0 else ""


def _hide(value: Json, name: str, place: str, salt: bytes, shown: tuple[str, ...]) -> Json:
    if isinstance(value, dict):
        return {
            key: _hide(each, key, f"{place}.{key}" if place else key, salt, shown)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_hide(each, name, f"{place}[{n}]", salt, shown) for n, each in enumerate(value)]
    is_told = name in _SHOWN or any(each and _is_within(place, each) for each in shown)
    if not isinstance(value, str) or not value or is_told:
        return value
    own = hmac.digest(salt, place.encode(), "sha256")
    return {"redacted": hashlib.sha256(_REDACTED + own + value.encode()).hexdigest()}


def _is_within(place: str, outer: str) -> bool:
    return place == outer or place.startswith(f"{outer}.")


def _least(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _least(each) for name, each in value.items() if name in _LEAST}
    return value
