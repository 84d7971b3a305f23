"""Redacts the view of a state: personal data is replaced by its kinds (004 §7).

The detector is a parameter; nothing here knows how data is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from pointsman.brainstate.state import BrainState
from pointsman.brainstate.view import (
    ShownCwmItem,
    ShownFailure,
    ShownGoal,
    ShownState,
    ShownWmItem,
    state_view,
)
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.document import Json


class SensitiveFind(Protocol):
    """Personal data or a secret in a text."""

    @property
    def kind(self) -> str:
        """Its kind: `email`, `iban`."""
        ...


FindPii: TypeAlias = Callable[[str], Sequence[SensitiveFind]]
"""Finds personal data and secrets in a text. If it raises, nothing is shown or stored."""

REDACTED: Final = "redacted"


def redacted_view(state: BrainState, find_pii: FindPii) -> ShownState:
    """Return the view for a caller who may not see all: a text with a find shows its kinds only.

    The stored state stays whole, or it could not be replayed.
    """
    hide = _Redactor(find_pii)
    view = state_view(state)
    return replace(
        view,
        brainstate_id=hide.text(view.brainstate_id),
        job_seed=hide.text(view.job_seed),
        goals=tuple(_goal(each, hide) for each in view.goals),
        wm=tuple(_item(each, hide) for each in view.wm),
        cwm=replace(
            view.cwm,
            topic=_topic(view, hide),
            items=tuple(_cwm_item(each, hide) for each in view.cwm.items),
        ),
        recent_failures=tuple(_failure(each, hide) for each in view.recent_failures),
        warnings=tuple(replace(each, name=hide.text(each.name)) for each in view.warnings),
    )


def find_sensitive(value: Json, find_pii: FindPii) -> tuple[SensitiveFind, ...]:
    """Find sensitive data in a value: in keys, members, numbers, and in the whole as written.

    A password is known as one by the key it stands under.
    """
    texts = (*_texts(value), canonical_json(value).decode())
    return tuple(each for text in texts for each in find_pii(text))


class _Redactor:
    """Replaces texts that hold a find, as a whole: half of one may still identify a person."""

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


def _kinds(found: Sequence[SensitiveFind]) -> tuple[str, ...]:
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


def _topic(view: ShownState, hide: _Redactor) -> str:
    # A topic is made of words of the first item: where that is hidden, they are too.
    first = view.cwm.items[:1]
    is_hidden = any(_cwm_item(each, hide) != each for each in first)
    return REDACTED if is_hidden else hide.text(view.cwm.topic)


def _goal(goal: ShownGoal, hide: _Redactor) -> ShownGoal:
    metadata = hide.value(goal.metadata)  # type: ignore[arg-type] # read from canonical JSON
    return replace(
        goal,
        goal_id=hide.text(goal.goal_id),
        deliverable=hide.text(goal.deliverable),
        metadata=metadata if isinstance(metadata, dict) else {REDACTED: metadata},
    )


def _item(item: ShownWmItem, hide: _Redactor) -> ShownWmItem:
    value = hide.value(item.value)  # type: ignore[arg-type] # as above
    return replace(item, wm_id=hide.text(item.wm_id), value=value)


def _cwm_item(item: ShownCwmItem, hide: _Redactor) -> ShownCwmItem:
    value = hide.value(item.value)  # type: ignore[arg-type] # as above
    return replace(item, wm_id=hide.text(item.wm_id), value=value)


def _failure(failure: ShownFailure, hide: _Redactor) -> ShownFailure:
    return replace(failure, node_id=hide.text(failure.node_id), reason=hide.text(failure.reason))
