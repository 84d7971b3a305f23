"""A second opinion: cheaper models that are asked before the one a policy chose.

The section of a policy, and the facts of a step. `turns.chain.opinion_step` decides the
steps; how answers are compared is `calls.answer_agreement`.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.literal import Fraction
from pointsman.kernel.number import billionths
from pointsman.turns.learning.pattern_row import Share
from pointsman.turns.registry.models import model_id

Agreement = Literal["equal", "valid", "judge"]
"""What makes an answer one to take: two are equal, one is valid by its schema, a judge says so."""

MOST_ASKED: Final = 3
"""How many models may be asked: more cost as much as the model above them."""


class GivenSecondOpinion(Struct, frozen=True, forbid_unknown_fields=True):
    """Which models are asked before the chosen one, as it is written."""

    ask: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_ASKED)]
    agree: Agreement | None = None
    judge: str | None = None
    min_score: Fraction = Decimal("0.75")


class SecondOpinion(Struct, frozen=True, forbid_unknown_fields=True):
    """Which models are asked before the chosen one, and when an answer of theirs is taken."""

    ask: tuple[str, ...]
    agree: Agreement
    judge: str | UnsetType = UNSET
    min_score: Share | UnsetType = UNSET


class Opinion(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model answered that was asked for a second opinion.

    `answer` is a keyed digest of the answer after normalisation: equal digests are equal answers.
    `is_valid` is unset where there is no schema to check against, `score` while no judge was asked.
    """

    model: str
    kind: Literal["text", "tools", "failed"]
    answer: str = ""
    is_valid: bool | UnsetType = UNSET
    score: Share | UnsetType | None = UNSET
    """The verdict of the judge; None where it gave none that can be read."""


def second_opinion(given: GivenSecondOpinion) -> SecondOpinion:
    """Make a section exact."""
    agree = given.agree or ("equal" if len(given.ask) > 1 else "valid")
    is_judged = agree == "judge"
    return SecondOpinion(
        tuple(map(model_id, given.ask)),
        agree,
        UNSET if given.judge is None or not is_judged else model_id(given.judge),
        billionths(f"{given.min_score:f}") if is_judged else UNSET,
    )


def second_opinion_problems(
    given: GivenSecondOpinion, document: Document, at: Path, above: tuple[str, ...] = ()
) -> Iterable[Problem]:
    """Check what a schema cannot; `above` are the models that take the turn otherwise."""
    seen = {model_id(name) for name in above}
    for index, name in enumerate(given.ask):
        if model_id(name) in seen:
            message = f"`{name}` takes the turn already, or stands in this list"
            yield document.problem((*at, "ask", index), Code.DUPLICATE_KEY, message)
        seen.add(model_id(name))
    if given.agree == "equal" and len(given.ask) < 2:
        hint = "name a second model, or write `agree: valid` or `agree: judge`"
        message = "`agree: equal` compares two answers, and one model is asked"
        yield document.problem((*at, "agree"), Code.INVALID_VALUE, message, hint)
    if (given.agree == "judge") != (given.judge is not None):
        message = "`agree: judge` and `judge: MODEL` stand together"
        yield document.problem(at, Code.INVALID_VALUE, message)
