"""The split of a rule: models that share its turns by weight, each unit always with the same one.

The draw is `wb1` salted by the rule's name: whole numbers, the same on every machine. Units under
two rules fall independently of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.wb1 import MAX_TOTAL, Salted, ends, pick_weight, unit_bytes
from pointsman.turns.facts import SplitUnits
from pointsman.turns.registry.models import model_id
from pointsman.turns.trace import SplitDraw

SplitBy = Literal["session", "key", "turn"]
Weight = Annotated[int, Meta(ge=0, le=MAX_TOTAL)]
GivenSplit = Annotated[dict[str, Weight], Meta(min_length=2)]
"""Models, by id or alias, and the share of each, as it is written."""


class SplitTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """A model of a split, and how many slots it has."""

    model: str
    weight: int


class RuleSplit(Struct, frozen=True, forbid_unknown_fields=True):
    """The models of a split, in the order in which they are written, and its unit."""

    by: SplitBy
    targets: tuple[SplitTarget, ...]

    @property
    def text(self) -> str:
        """The split in one line."""
        shares = ", ".join(f"{each.weight} {each.model}" for each in self.targets)
        return f"{shares} by {self.by}"


DRAWS: Final = 1 << 64
"""How many numbers a unit may draw; the slots share them."""


def share_starts(split: RuleSplit) -> list[tuple[str, int, int]]:
    """Return each model that has a weight with the first and the last number of its share."""
    bounds = ends([each.weight for each in split.targets])
    # A number n is in slot n * total / DRAWS, rounded down.
    starts = [-(-(bound * DRAWS) // bounds[-1]) for bound in (0, *bounds)]
    shares = zip(split.targets, starts, starts[1:], strict=False)
    return [(each.model, first, after - 1) for each, first, after in shares if each.weight]


def draw_number(salted: Salted, unit: str) -> int:
    """Return the number that a unit draws; 0 without one."""
    encoded = unit_bytes(unit) if unit else None
    return 0 if encoded is None else salted.slot(encoded, DRAWS)


def salt_of(rule: str) -> Salted:
    """Return the salt of a rule, by its name."""
    return Salted(f"routing rule {rule}")


class Splitter:
    """Draws the model of a turn."""

    __slots__ = ("_bounds", "_salted", "_split")

    def __init__(self, rule: str, split: RuleSplit) -> None:
        self._split = split
        self._salted = salt_of(rule)
        self._bounds = ends([each.weight for each in split.targets])

    def draw(self, units: SplitUnits) -> tuple[str, SplitDraw]:
        """Return the model of a turn, and its slot; a turn without a unit has the first slot."""
        by, total = self._split.by, self._bounds[-1]
        unit = unit_bytes(getattr(units, by)) if getattr(units, by) else None
        slot = 0 if unit is None else self._salted.slot(unit, total)
        model = self._split.targets[pick_weight(slot, self._bounds)].model
        return model, SplitDraw(by, None if unit is None else slot, total)


def draw_text(draw: SplitDraw) -> str:
    """Say where a turn fell in a split."""
    if draw.slot is None:
        return f"no {draw.by} is known: the first of the split"
    return f"its {draw.by} is in slot {draw.slot} of {draw.total}"


def rule_split(given: Mapping[str, int], by: SplitBy, aliases: Mapping[str, str]) -> RuleSplit:
    """Return the exact form of a split whose models are known."""
    targets = (SplitTarget(aliases[model_id(name)], weight) for name, weight in given.items())
    return RuleSplit(by, tuple(targets))


def problems(
    given: Mapping[str, int], aliases: Mapping[str, str], document: Document, path: Path
) -> Iterable[Problem]:
    """List what a schema cannot say about a split whose models are known."""
    seen: dict[str, str] = {}
    for name in given:
        model = aliases[model_id(name)]
        if model in seen:
            message = f"`{name}` is {model}, as `{seen[model]}` before it"
            yield document.problem((*path, name), Code.DUPLICATE_KEY, message, key=True)
        seen.setdefault(model, name)
    total = sum(given.values())
    if not 0 < total <= MAX_TOTAL:
        message = f"the weights add up to {total}, and must to at least 1 and at most {MAX_TOTAL}"
        yield document.problem(path, Code.INVALID_VALUE, message)
