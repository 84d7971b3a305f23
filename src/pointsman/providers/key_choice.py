"""The key or the deployment of a call, of several: drawn by `wb1`, the same for a session. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.wb1 import Salted, unit_bytes


class KeyOption(Struct, frozen=True, forbid_unknown_fields=True):
    """A key or a deployment by its id, its weight, and whether a call could go to it then."""

    id: str
    weight: int
    is_open: bool


class KeyChoice(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a choice looked at, the key or deployment chosen first, and the one that was used.

    The used one is another where the first was refused within the call.
    """

    method: str
    unit: str
    keys: tuple[KeyOption, ...]
    chosen: str
    used: str


def choose_keys(
    unit: str, options: Sequence[KeyOption], kind: str = "provider-key"
) -> tuple[int, ...]:
    """Return the numbers of the keys in the order a call of this unit tries them.

    Keys in use come first. The order among them does not change while others go out and come
    back, so that a session keeps its key, and with it the provider's cache of its prompt. Choices
    of different kinds are drawn each by itself.
    """
    drawn = _drawn_order(unit, tuple(each.weight for each in options), kind)
    return (
        *(each for each in drawn if options[each].is_open),
        *(each for each in drawn if not options[each].is_open),
    )


def with_used_key(choice: KeyChoice | None, used: str) -> KeyChoice | None:
    """Return a choice with the key that the call used in the end."""
    return choice if choice is None or not used else replace(choice, used=used)


@lru_cache(maxsize=4096)
def _drawn_order(unit: str, weights: tuple[int, ...], kind: str) -> tuple[int, ...]:
    left, order = list(range(len(weights))), list[int]()
    value = unit_bytes(unit)
    if not unit or value is None:
        # A call of no session goes by the order of the file.
        return tuple(left)
    while left:
        total = sum(weights[each] for each in left)
        slot = Salted(f"{kind}/{len(order)}").slot(value, total)
        for each in left:
            slot -= weights[each]
            if slot < 0:
                break
        left.remove(each)
        order.append(each)
    return tuple(order)
