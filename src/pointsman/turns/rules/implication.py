"""When one condition covers another, as far as their texts show it. It may miss some."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pointsman.kernel.columns import ascii_lower
from pointsman.turns.rules.condition import TREES, Condition, TimeWindow, set_fields

Parts = frozenset[Condition]
"""A condition as parts that must all hold; each part has one field. No parts: it always holds."""

ALWAYS = ""
_FLEXIBLE = (
    "estimated_input_tokens_gt", "estimated_input_tokens_lt", "cost_today_exceeds_microusd",
    "message_contains_any", "skills_matching_message_includes", "file_extensions_in_context",
    "time_of_day_between", "team_budget_remaining_lt_microusd", "key_is", "tenant_is", "agent_is",
    "tool_names_include", "zone_is", "label_includes",
)  # fmt: skip
"""Fields that another value of the same field can imply."""


def parts(asked: Condition) -> Parts:
    """Return a condition without nested `all_of`, single `any_of`, and parts that always hold."""
    found: set[Condition] = set()
    for name in set_fields(asked):
        value = getattr(asked, name)
        if name in TREES:
            continue
        if isinstance(value, tuple):
            value = tuple(sorted(set(_fold(name, value))))
        if not (isinstance(value, TimeWindow) and value.start == value.end):
            found.add(Condition(**{name: value}))
    for inner in asked.all_of or ():
        found |= parts(inner)
    return frozenset(found | _some(asked.any_of or ()) | _not(asked.not_))


def _some(members: Iterable[Condition]) -> Parts:
    inner = {parts(member) for member in members}
    if len(inner) <= 1 or frozenset() in inner:
        return frozenset() if frozenset() in inner else frozenset().union(*inner)
    return frozenset({Condition(any_of=tuple(_sort_parts(map(_together, inner))))})


def _not(inner: Condition | None) -> Parts:
    if inner is None:
        return frozenset()
    denied = parts(inner)
    first = next(iter(denied), Condition())
    if len(denied) == 1 and first.not_ is not None:
        return _split_parts(first.not_)
    return (
        frozenset() if is_contradictory(denied) else frozenset({Condition(not_=_together(denied))})
    )


def _fold(name: str, words: tuple[str, ...]) -> Iterable[str]:
    # Words of a message are looked for whatever their case.
    return map(ascii_lower, words) if name == "message_contains_any" else words


def _together(asked: Parts) -> Condition:
    return next(iter(asked)) if len(asked) == 1 else Condition(all_of=tuple(_sort_parts(asked)))


def _split_parts(one: Condition) -> Parts:
    # The inside of a part is in this form already; making it anew would double the work a level.
    return frozenset({one} if one.all_of is None else one.all_of)


def _sort_parts(conditions: Iterable[Condition]) -> list[Condition]:
    # DETERMINISM: sets have no order; the canonical text has one.
    return sorted(conditions, key=msgspec.json.encode)


def is_contradictory(asked: Parts) -> bool:
    """Tell whether some parts can never hold together."""
    return (
        _no_tokens(asked)
        or any(flag in asked and other in asked for flag, other in _OPPOSITES)
        or not _minutes(asked)
        or any(_is_disjoint(asked, name) for name in ("tenant_is", "agent_is"))
        or any(each.not_ is not None and implies(asked, _split_parts(each.not_)) for each in asked)
        or any(each.any_of and all(is_contradictory(_split_parts(m)) for m in each.any_of)
               for each in asked)
    )  # fmt: skip


_OPPOSITES = (
    (Condition(has_images=True), Condition(has_images=False)),
    (Condition(has_tool_calls_in_history=True), Condition(has_tool_calls_in_history=False)),
)


def _no_tokens(asked: Parts) -> bool:
    above = [p.estimated_input_tokens_gt for p in asked if p.estimated_input_tokens_gt is not None]
    below = [p.estimated_input_tokens_lt for p in asked if p.estimated_input_tokens_lt is not None]
    # Counts are whole: between 5 and 6 there is none.
    return bool(below) and min(below) <= max([-1, *above]) + 1


def _is_disjoint(asked: Parts, name: str) -> bool:
    """Tell whether lists for a fact with one value share none."""
    lists = [frozenset(getattr(part, name) or ()) for part in asked if kind_of(part) == name]
    return bool(lists) and not frozenset.intersection(*lists)


def _minutes(asked: Iterable[Condition]) -> int:
    """Return the minutes of the day that all windows share, a bit for each."""
    shared = _DAY
    for part in asked:
        window = part.time_of_day_between
        if window is not None and window.start < window.end:
            shared &= _span(window.start, window.end)
        elif window is not None:
            shared &= ~_span(window.end, window.start)
    return shared


def _span(start: int, end: int) -> int:
    return (1 << end) - (1 << start)


_DAY = _span(0, 24 * 60)


def implies(given: Parts, wanted: Parts) -> bool:
    """Tell whether every turn with the given parts has the wanted ones too, as far as is seen."""
    return wanted <= given or all(any(_is_implied(each, w) for each in given) for w in wanted)


def _is_implied(given: Condition, wanted: Condition) -> bool:
    if given == wanted:
        return True
    name = kind_of(wanted)
    if name not in _FLEXIBLE or kind_of(given) != name:
        return False
    if name == "time_of_day_between":
        return not _minutes([given]) & ~_minutes([wanted])
    own, other = getattr(given, name), getattr(wanted, name)
    if isinstance(own, tuple):
        return set(own) <= set(other)
    return bool(own <= other if "_lt" in name else own >= other)


def kind_of(part: Condition) -> str:
    """Return the name of the one field of a part."""
    return next(set_fields(part))


def own_key(asked: Parts) -> Condition | str:
    """Return the key a rule is found by: a part only an equal one implies, else a field's name."""
    rigid = [part for part in _sort_parts(asked) if kind_of(part) not in _FLEXIBLE]
    if rigid:
        return rigid[0]
    return min(map(kind_of, asked), default=ALWAYS)


def search_keys(asked: Parts) -> list[Condition | str]:
    """Return the keys of all rules that could ask for no more than this."""
    return [ALWAYS, *_sort_parts(asked), *sorted(map(kind_of, asked))]
