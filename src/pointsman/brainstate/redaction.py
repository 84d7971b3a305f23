"""What of a state may be seen or kept by whom: found personal data gives way to its kinds (004 §7).

The detector and the keyed digest are handed in; nothing here knows how data is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pointsman.brainstate.state import BrainState
from pointsman.brainstate.view import (
    ShownCwmItem,
    ShownFailure,
    ShownGoal,
    ShownState,
    ShownWmItem,
    shown,
)
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.document import Json


class Found(Protocol):
    """Something personal or secret in a text."""

    @property
    def kind(self) -> str:
        """What it is: `email`, `iban`."""
        ...


FindPii: TypeAlias = Callable[[str], Sequence[Found]]
"""Finds what is personal or secret in a text. If it raises, nothing is shown or kept."""

Mac: TypeAlias = Callable[[bytes], str]
"""Gives the keyed digest of some bytes; a plain hash of a phone number is guessed in seconds."""

REDACTED: Final = "redacted"


class Withheld(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept in place of a sensitive value: what was in it, a keyed digest, its length."""

    redacted: Literal[True]
    kinds: tuple[str, ...]
    digest: str
    bytes: int


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """A value as it may be recorded: itself, or what stands in its place; and on whose word."""

    value: str | None
    withheld: Withheld | None
    kinds: tuple[str, ...]
    is_opted_in: bool


def redacted_view(state: BrainState, find_pii: FindPii) -> ShownState:
    """Show a state to somebody who may not see all of it: what holds a find shows its kinds only.

    The stored state stays whole, or it could not be replayed.
    """
    hide = _Hiding(find_pii)
    view = shown(state)
    return replace(
        view,
        brainstate_id=hide.text(view.brainstate_id),
        job_seed=hide.text(view.job_seed),
        goals=tuple(_goal(each, hide) for each in view.goals),
        wm=tuple(_item(each, hide) for each in view.wm),
        cwm=replace(
            view.cwm,
            topic=_topic(view, hide),
            items=tuple(_consolidated(each, hide) for each in view.cwm.items),
        ),
        recent_failures=tuple(_failure(each, hide) for each in view.recent_failures),
        warnings=tuple(replace(each, name=hide.text(each.name)) for each in view.warnings),
    )


def for_record(value: Json, found: Sequence[Found], *, is_opted_in: bool, mac: Mac) -> Kept:
    """Say how a value may be recorded: raw only where nothing was found or an opt-in is logged."""
    kinds = _kinds(found)
    canonical = canonical_json(value)
    if kinds and not is_opted_in:
        withheld = Withheld(True, kinds, mac(canonical), len(canonical))  # noqa: FBT003 - the only value it has
        return Kept(None, withheld, kinds, is_opted_in)
    return Kept(canonical.decode(), None, kinds, is_opted_in)


def found_in(value: Json, find_pii: FindPii) -> tuple[Found, ...]:
    """Find what is sensitive in a value: in keys, members, numbers, and in the whole as written.

    A password is known as one by the key it stands under.
    """
    texts = (*_texts(value), canonical_json(value).decode())
    return tuple(each for text in texts for each in find_pii(text))


class _Hiding:
    """Replaces texts that hold a find. A whole text gives way: half of one may still tell who."""

    __slots__ = ("_find",)

    def __init__(self, find_pii: FindPii) -> None:
        self._find = find_pii

    def text(self, text: str) -> str:
        kinds = _kinds(self._find(text))
        return f"[{', '.join(kinds)}]" if kinds else text

    def value(self, value: Json) -> Json:
        """Replace inside a value; where only its texts together hold a find, all of it."""
        hidden = self._inside(value)
        whole = canonical_json(hidden).decode()
        return self.text(whole) if self._find(whole) else hidden

    def _inside(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._inside(each) for each in value]
        if isinstance(value, dict):
            return self._members(value)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            written = str(value)
            hidden = self.text(written)
            return value if hidden == written else hidden
        return value

    def _members(self, value: dict[str, Json]) -> dict[str, Json]:
        members: dict[str, Json] = {}
        for number, (key, item) in enumerate(value.items()):
            name = self.text(key)
            # Two keys hidden alike must not become one member.
            members[name if name == key else f"{name} {number}"] = self._inside(item)
        return members


def _kinds(found: Sequence[Found]) -> tuple[str, ...]:
    return tuple(sorted({each.kind for each in found}))


def _texts(value: Json) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (key, *_texts(each))]
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return [str(value)]
    return []


def _topic(view: ShownState, hide: _Hiding) -> str:
    # A topic is made of words of the first item: where that is hidden, they are too.
    first = view.cwm.items[:1]
    is_hidden = any(_consolidated(each, hide) != each for each in first)
    return REDACTED if is_hidden else hide.text(view.cwm.topic)


def _goal(goal: ShownGoal, hide: _Hiding) -> ShownGoal:
    metadata = hide.value(goal.metadata)  # type: ignore[arg-type] # read from canonical JSON
    return replace(
        goal,
        goal_id=hide.text(goal.goal_id),
        deliverable=hide.text(goal.deliverable),
        metadata=metadata if isinstance(metadata, dict) else {REDACTED: metadata},
    )


def _item(item: ShownWmItem, hide: _Hiding) -> ShownWmItem:
    value = hide.value(item.value)  # type: ignore[arg-type] # as above
    return replace(item, wm_id=hide.text(item.wm_id), value=value)


def _consolidated(item: ShownCwmItem, hide: _Hiding) -> ShownCwmItem:
    value = hide.value(item.value)  # type: ignore[arg-type] # as above
    return replace(item, wm_id=hide.text(item.wm_id), value=value)


def _failure(failure: ShownFailure, hide: _Hiding) -> ShownFailure:
    return replace(failure, node_id=hide.text(failure.node_id), reason=hide.text(failure.reason))
