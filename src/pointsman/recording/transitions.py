"""Providers that went out or came back, as entries of the ledger. Document 002 §7.3."""

from __future__ import annotations

from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.turns.registry.availability import Transition
from pointsman.turns.registry.provider_state import ProviderRecovered, ProviderUnavailable

UNAVAILABLE = f"event.{ProviderUnavailable.event_type}"
RECOVERED = f"event.{ProviderRecovered.event_type}"

UNAVAILABLE_FORM = Form(ProviderUnavailable)
RECOVERED_FORM = Form(ProviderRecovered)


def transition_draft(name: str, transition: Transition) -> Draft:
    """Make the entry of a transition; `ref` is the provider."""
    payload, at = transition.payload, transition.at
    if isinstance(payload, ProviderUnavailable):
        return Draft(UNAVAILABLE, name, payload.provider, at, UNAVAILABLE_FORM.encode(payload))
    return Draft(RECOVERED, name, payload.provider, at, RECOVERED_FORM.encode(payload))
