"""How a call to a model ended: `runs.call_end`, by the name the gateway knows it under."""

from __future__ import annotations

from pointsman.runs.call_end import END_FORM, CallEnd, outcome_of

__all__ = ["END_FORM", "CallEnd", "outcome_of"]
