"""The trace of a tick, for people to read."""

from __future__ import annotations

from typing import Final

from pointsman.brainstate.trace import Happening, ModulatorChange, Reward, TickTrace
from pointsman.kernel.document import printable
from pointsman.kernel.number import billionths_text

SHORT_ID: Final = 12
_COUNCIL: Final = {None: "no council", True: "the council approved", False: "the council rejected"}
_USER: Final = {None: "the user said nothing", True: "an upvote", False: "a downvote"}


def to_screen(trace: TickTrace) -> str:
    """Render a tick on one screen: the reward, the modulators, and each happening."""
    lines = [
        printable(f"tick {trace.tick} of {trace.brainstate_id}"),
        _reward(trace.reward),
        f"attention_gain {_change(trace.attention_gain)}",
        f"explore_bias {_change(trace.explore_bias)}",
        *(_happening(each) for each in trace.happenings),
        *(
            printable(f"wish {each.action_id[:SHORT_ID]}: {each.justification}")
            for each in trace.wishes
        ),
    ]
    return "\n".join(lines)


def _reward(reward: Reward) -> str:
    said = f"{_COUNCIL[reward.council_approval]}, {_USER[reward.user_upvote]}"
    is_dropped = reward.user_upvote is not None and not reward.is_user_counted
    aside = ", which does not count" if is_dropped else ""
    return f"reward {billionths_text(reward.value)}: {said}{aside}"


def _change(change: ModulatorChange) -> str:
    return f"{billionths_text(change.before)} → {billionths_text(change.after)}"


def _happening(each: Happening) -> str:
    detail = f" ({each.detail})" if each.detail else ""
    subject = f" {each.subject[:SHORT_ID]}" if each.subject else ""
    return printable(f"{each.event_type}{subject}: {each.why.meaning}{detail}")
