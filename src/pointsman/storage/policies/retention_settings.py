"""`retention:` of `pointsman.yaml`: how long text stays, at least and at most, and holds on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document

Days = Annotated[int, Meta(ge=1, le=36_500)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class LegalHold(Struct, frozen=True, forbid_unknown_fields=True):
    """Text that may not go while this stands: name one thing it is about."""

    name: Name
    turn: str | None = None
    session: str | None = None
    key: str | None = None
    tenant: str | None = None

    @property
    def about(self) -> list[tuple[str, str]]:
        """The field and the value of the thing it is about."""
        given = {name: getattr(self, name) for name in ("turn", "session", "key", "tenant")}
        return [(name, value) for name, value in given.items() if value is not None]


class RetentionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many days text of each kind stays; without a number, until it is erased.

    `messages` are what users and models said, `agents` jobs and their memory, `workflows` contexts
    of decisions, `feedback` comments, shadow answers and verdicts. Text younger than `floor` days
    is never erased. `pointsman erase --expired` erases text past its days.
    """

    messages: Days | None = None
    agents: Days | None = None
    workflows: Days | None = None
    feedback: Days | None = None
    floor: Days | None = None
    holds: tuple[LegalHold, ...] = ()


def retention_problems(settings: RetentionSettings, document: Document) -> Iterable[Problem]:
    """Return the problems of the section."""
    floor = settings.floor or 0
    for kind in ("messages", "agents", "workflows", "feedback"):
        days = getattr(settings, kind)
        if days is not None and days < floor:
            message = f"`{kind}` goes after {days} days, before the floor of {floor}"
            hint = "raise it, or lower `floor`"
            yield document.problem(("retention", kind), Code.INVALID_VALUE, message, hint)
    for index, hold in enumerate(settings.holds):
        if len(hold.about) != 1 or not hold.about[0][1].strip():
            message = f"the hold `{hold.name}` does not name one thing"
            hint = "give it one of turn, session, key, tenant"
            yield document.problem(("retention", "holds", index), Code.INVALID_VALUE, message, hint)
