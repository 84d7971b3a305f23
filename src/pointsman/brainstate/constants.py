"""Every number the update rules use: stored in each snapshot, so that no rule holds one of its own.

Defaults have a version; a missing number is filled in when a state is created, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType, convert
from msgspec.structs import fields

from pointsman.kernel.number import Billionths, billionths, billionths_text

DEFAULTS_VERSION: Final = 1
MAX_TICKS: Final = 1_000_000

Fraction = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Ticks = Annotated[int, Meta(ge=1, le=MAX_TICKS)]
Tokens = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class Constants(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The constants of one job, all of them. Fractions are in billionths."""

    defaults_version: int
    default_wm_ttl: int
    promotion_references: int
    promotion_window: int
    cwm_ttl: int
    cwm_budget_divisor: int
    council_weight: Billionths
    user_weight: Billionths
    a_decay: Billionths
    a_gain: Billionths
    e_decay: Billionths
    e_gain: Billionths
    confidence_threshold: Billionths
    max_attempts: int
    max_repair_loops: int
    preemption_margin: Billionths
    user_priority_weight: Billionths
    system_priority_weight: Billionths
    default_user_priority: Billionths
    default_heuristic_score: Billionths
    default_attention_gain: Billionths
    default_explore_bias: Billionths
    default_reward_signal: Billionths
    prefer_high_apt_at: Billionths
    allow_explore_at: Billionths
    quick_answer_below: Billionths
    min_token_threshold: int
    max_recent_failures: int


class GivenConstants(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={
        "default_wm_ttl": "DEFAULT_WM_TTL",
        "promotion_references": "PROMOTION_REFERENCES",
        "promotion_window": "PROMOTION_WINDOW",
        "confidence_threshold": "CONFIDENCE_THRESHOLD",
    },
):
    """The constants as a caller writes them, under the names of document 004; any may be absent."""

    defaults_version: Annotated[int, Meta(ge=1, le=DEFAULTS_VERSION)] | UnsetType = UNSET
    default_wm_ttl: Ticks | UnsetType = UNSET
    promotion_references: Annotated[int, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    promotion_window: Ticks | UnsetType = UNSET
    cwm_ttl: Ticks | UnsetType = UNSET
    cwm_budget_divisor: Annotated[int, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    council_weight: Fraction | UnsetType = UNSET
    user_weight: Fraction | UnsetType = UNSET
    a_decay: Fraction | UnsetType = UNSET
    a_gain: Fraction | UnsetType = UNSET
    e_decay: Fraction | UnsetType = UNSET
    e_gain: Fraction | UnsetType = UNSET
    confidence_threshold: Fraction | UnsetType = UNSET
    max_attempts: Annotated[int, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    max_repair_loops: Annotated[int, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    preemption_margin: Fraction | UnsetType = UNSET
    user_priority_weight: Fraction | UnsetType = UNSET
    system_priority_weight: Fraction | UnsetType = UNSET
    default_user_priority: Fraction | UnsetType = UNSET
    default_heuristic_score: Fraction | UnsetType = UNSET
    default_attention_gain: Fraction | UnsetType = UNSET
    default_explore_bias: Fraction | UnsetType = UNSET
    default_reward_signal: Fraction | UnsetType = UNSET
    prefer_high_apt_at: Fraction | UnsetType = UNSET
    allow_explore_at: Fraction | UnsetType = UNSET
    quick_answer_below: Fraction | UnsetType = UNSET
    min_token_threshold: Tokens | UnsetType = UNSET
    max_recent_failures: Annotated[int, Meta(ge=0, le=1_000)] | UnsetType = UNSET


class DefaultUsed(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A warning: a value was missing, and this default was taken. For operators only."""

    name: str
    value: str


def _f(text: str) -> Billionths:
    return billionths(text)


DEFAULTS: Final = Constants(
    defaults_version=DEFAULTS_VERSION,
    default_wm_ttl=3,
    promotion_references=2,
    promotion_window=4,
    cwm_ttl=10,
    cwm_budget_divisor=4,
    council_weight=_f("0.8"),
    user_weight=_f("0.2"),
    a_decay=_f("0.05"),
    a_gain=_f("0.25"),
    e_decay=_f("0.03"),
    e_gain=_f("0.15"),
    confidence_threshold=_f("0.7"),
    max_attempts=3,
    max_repair_loops=3,
    preemption_margin=_f("0.2"),
    user_priority_weight=_f("0.8"),
    system_priority_weight=_f("0.2"),
    default_user_priority=_f("0.5"),
    default_heuristic_score=_f("0.5"),
    default_attention_gain=_f("0.5"),
    default_explore_bias=_f("0.15"),
    default_reward_signal=_f("0"),
    prefer_high_apt_at=_f("0.6"),
    allow_explore_at=_f("0.2"),
    quick_answer_below=_f("0.2"),
    min_token_threshold=128,
    max_recent_failures=16,
)

_DEFAULT_VALUES: Final[Mapping[str, int]] = {
    each.name: getattr(DEFAULTS, each.name) for each in fields(Constants)
}
WRITTEN: Final[Mapping[str, str]] = {each.name: each.encode_name for each in fields(GivenConstants)}
"""How each constant is spelled outside."""

FRACTIONS: Final = frozenset(
    each.name for each in fields(Constants) if each.type in ("Billionths", Billionths)
)


def read_constants(given: GivenConstants) -> dict[str, int]:
    """Return the constants a caller wrote, exact; absent ones stay absent."""
    exact: dict[str, int] = {}
    for name in _DEFAULT_VALUES:
        value = getattr(given, name)
        if isinstance(value, Decimal):
            exact[name] = billionths(f"{value:f}")
        elif value is not UNSET:
            exact[name] = value
    return exact


def fill_defaults(given: Mapping[str, int]) -> tuple[Constants, tuple[DefaultUsed, ...]]:
    """Fill in the missing constants, with a warning for each default used (004 §11)."""
    missing = [name for name in _DEFAULT_VALUES if name not in given and name != "defaults_version"]
    warnings = tuple(DefaultUsed(WRITTEN[name], _default_text(name)) for name in missing)
    return convert({**_DEFAULT_VALUES, **given}, Constants), warnings


def _default_text(name: str) -> str:
    value = _DEFAULT_VALUES[name]
    return billionths_text(Billionths(value)) if name in FRACTIONS else str(value)
