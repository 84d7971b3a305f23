"""The states of a group commit: what the writer thread does, or who commits while it sleeps.

| state     | event        | next      | when |
|-----------|--------------|-----------|------|
| working   | sleep        | idle      | nothing waits |
| working   | doze         | dozing    | items without a waiter wait, or a commit just ended |
| working   | linger       | lingering | fewer waiters than half of the callers served last |
| idle      | defer        | deferred  | the event loop hands in an item |
| dozing    | defer        | deferred  | likewise, with a waiter |
| lingering | defer        | deferred  | likewise, and it makes the group large enough |
| deferred  | start_inline | inline    | the loop's round is over, and the policy allows it |
| inline    | end_inline   | dozing    | committed, and nothing is left to do |
| idle      | ring         | woken     | an item, a prepared group, a commit alone, `close` |
| dozing    | ring         | woken     | likewise, but for an item without a waiter |
| lingering | ring         | woken     | likewise |
| deferred  | ring         | woken     | likewise; or the policy wants the thread to commit |
| inline    | ring         | woken     | likewise; or committed, and something is left to do |
| idle      | wake         | working   | housekeeping is due |
| dozing    | wake         | working   | its time is over |
| lingering | wake         | working   | its time is over |
| deferred  | wake         | working   | its time is over: the thread commits after all |
| inline    | wake         | working   | its time is over: it waits for the loop's commit |
| woken     | wake         | working   | it heard the bell |
| working   | end          | ended     | closed and all committed, or housekeeping raised |
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final


class State(IntEnum):
    """What the writer thread does, or who commits while it sleeps."""

    WORKING = auto()
    """Awake: it looks for items again before it sleeps, so no caller wakes it."""
    IDLE = auto()
    """Asleep until an item comes or housekeeping is due."""
    DOZING = auto()
    """Asleep for `FIRE_AND_FORGET_DELAY_S` at most; items without a waiter do not wake it."""
    LINGERING = auto()
    """Asleep for `LINGER_S` at most, until the group is large enough."""
    DEFERRED = auto()
    """Asleep; the event loop starts the commit at the end of its round."""
    INLINE = auto()
    """Asleep; the event loop commits."""
    WOKEN = auto()
    """Rung for, not awake yet."""
    ENDED = auto()


class WriterEvent(IntEnum):
    """What moves the writer from state to state."""

    SLEEP = auto()
    DOZE = auto()
    LINGER = auto()
    DEFER = auto()
    START_INLINE = auto()
    END_INLINE = auto()
    RING = auto()
    WAKE = auto()
    END = auto()


WAITS: Final = (State.IDLE, State.DOZING, State.LINGERING)
RINGABLE: Final = frozenset({*WAITS, State.DEFERRED, State.INLINE})

TRANSITIONS: Final[dict[tuple[State, WriterEvent], State]] = {
    (State.WORKING, WriterEvent.SLEEP): State.IDLE,
    (State.WORKING, WriterEvent.DOZE): State.DOZING,
    (State.WORKING, WriterEvent.LINGER): State.LINGERING,
    **{(state, WriterEvent.DEFER): State.DEFERRED for state in WAITS},
    (State.DEFERRED, WriterEvent.START_INLINE): State.INLINE,
    (State.INLINE, WriterEvent.END_INLINE): State.DOZING,
    **{(state, WriterEvent.RING): State.WOKEN for state in State if state in RINGABLE},
    **{
        (state, WriterEvent.WAKE): State.WORKING for state in (*WAITS, State.DEFERRED, State.INLINE)
    },
    (State.WOKEN, WriterEvent.WAKE): State.WORKING,
    (State.WORKING, WriterEvent.END): State.ENDED,
}
