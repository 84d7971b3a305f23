"""A state without its words, as the ledger holds it, and the same state with them again (004 §7).

Values, metadata, deliverables, topics and reasons are words; names and numbers are not.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from pointsman.brainstate.state import BrainState
from pointsman.brainstate.trace import TickTrace
from pointsman.kernel.content import Sealed, Texts, read_seal_text, seal_as_text

_BARE = frozenset({"", "{}"})
"""Texts that say nothing, and stay as they are."""

Seal = Callable[[str], Sealed]


def sealed_state(state: BrainState, seal: Seal) -> BrainState:
    """Return a state with each of its texts replaced by its seal."""
    return _change_words(state, lambda text: seal_as_text(seal(text)))


def opened_state(state: BrainState, texts: Texts) -> BrainState:
    """Return a sealed state with its texts; raises what `texts` raises where one is gone."""
    return _change_words(state, lambda text: texts(read_seal_text(text)))


def sealed_trace(trace: TickTrace, seal: Seal) -> TickTrace:
    """Return a trace with the payloads of its wishes sealed; its happenings quote no text."""
    wishes = [replace(each, payload=seal_as_text(seal(each.payload))) for each in trace.wishes]
    return replace(trace, wishes=tuple(wishes)) if wishes else trace


def _change_words(state: BrainState, change: Callable[[str], str]) -> BrainState:
    def words(text: str) -> str:
        return text if text in _BARE else change(text)

    return replace(
        state,
        goals=tuple(
            replace(each, metadata=words(each.metadata), deliverable=words(each.deliverable))
            for each in state.goals
        ),
        wm=tuple(replace(each, value=words(each.value)) for each in state.wm),
        cwm=replace(
            state.cwm,
            topic=words(state.cwm.topic),
            items=tuple(replace(each, value=words(each.value)) for each in state.cwm.items),
        ),
        recent_failures=tuple(
            replace(each, reason=words(each.reason)) for each in state.recent_failures
        ),
    )
