"""Types of closed documents, such as a policy's."""

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Share = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": 1})]


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    pass


class Sticky(Closed, frozen=True, tag="sticky"):
    use: str
    max_turns: int = 3


class Pinned(Closed, frozen=True, tag="pinned"):
    use: str
    note: str = ""


class Window(Closed, frozen=True):
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError("the window ends before it starts")


class Policy(Closed, frozen=True):
    """What the tests read."""

    global_default: str | None = None
    mode: Literal["fast", "careful"] = "fast"
    level: Literal["low", "high"] | None = None
    retries: Annotated[int, Meta(ge=0, le=5)] = 0
    step: Annotated[int, Meta(gt=0, lt=9, multiple_of=2)] = 2
    name: Annotated[str, Meta(min_length=2, max_length=5, pattern="^[a-z]*$")] = "none"
    tags: Annotated[tuple[str, ...], Meta(min_length=1, max_length=2)] = ("a",)
    labels: Annotated[dict[str, int], Meta(min_length=1, max_length=2)] = {}
    named: dict[Annotated[str, Meta(pattern="^[a-z]+$")], int] = {}
    pair: tuple[int, str] = (0, "")
    rules: tuple[Sticky | Pinned, ...] = ()
    either: int | bool | None = None
    amount: Decimal | None = None
    share: Share = Decimal(0)
    any_share: Share | None = None
    is_on: bool = False
    windows: dict[str, list[Window]] = {}
    hours: tuple[Window, ...] = ()
    default: Decimal = Decimal(0)
    unique: Annotated[tuple[int, ...], Meta(extra_json_schema={"uniqueItems": True})] = ()
    short: Annotated[str, Meta(max_length=2)] | Literal[7] | None = None
