"""The router's constants: document 000's, each with its default, all written into the snapshot."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from pointsman.agents.modules.module import action_key
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import Billionths, billionths, billionths_text

Fraction = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
TieRank = Literal["final_score", "apt", "node_id"]

EPSILON: Final = Decimal("1e-9")
"""The resolution of all scores (document 000): fixed; a file may only state it."""

TIE_ORDER: Final[tuple[TieRank, ...]] = get_args(TieRank)


class RouterConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The constants of the router's arithmetic. Fractions are in billionths."""

    version: str
    min_availability: Billionths
    min_score: Billionths
    weight_avail: Billionths
    weight_goal: Billionths
    weight_bias: Billionths
    dep_unhealthy_penalty: Billionths
    status_weight_healthy: Billionths
    status_weight_degraded: Billionths
    quick_attention: Billionths
    token_share_least: Billionths
    token_share_gain: Billionths
    min_token_floor: int
    min_token_threshold: int
    max_attempts: int
    top_n: int
    trace_chars: int
    trace_rows: int
    high_risk_actions: tuple[str, ...]
    tie_order: tuple[TieRank, ...]
    numeric_epsilon: Billionths


class GivenConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`router_config` as it is written; document 000's upper-case names are accepted as well."""

    version: Name | UnsetType = UNSET
    min_availability: Fraction | UnsetType = UNSET
    min_score: Fraction | UnsetType = UNSET
    weight_avail: Fraction | UnsetType = UNSET
    weight_goal: Fraction | UnsetType = UNSET
    weight_bias: Fraction | UnsetType = UNSET
    dep_unhealthy_penalty: Fraction | UnsetType = UNSET
    status_weight_healthy: Fraction | UnsetType = UNSET
    status_weight_degraded: Fraction | UnsetType = UNSET
    quick_attention: Fraction | UnsetType = UNSET
    token_share_least: Fraction | UnsetType = UNSET
    token_share_gain: Fraction | UnsetType = UNSET
    min_token_floor: Count | UnsetType = UNSET
    min_token_threshold: Count | UnsetType = UNSET
    max_attempts: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET
    top_n: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    trace_chars: Annotated[int, Meta(ge=80, le=4000)] | UnsetType = UNSET
    trace_rows: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType = UNSET
    high_risk_actions: tuple[Name, ...] | UnsetType = UNSET
    numeric_epsilon: Fraction | UnsetType = UNSET


DEFAULT_CONFIG: Final = RouterConfig(
    version="1.0.0",
    min_availability=billionths("0.15"),
    min_score=billionths("0.2"),
    weight_avail=billionths("0.7"),
    weight_goal=billionths("0.2"),
    weight_bias=billionths("0.1"),
    dep_unhealthy_penalty=billionths("0.5"),
    status_weight_healthy=billionths("1"),
    status_weight_degraded=billionths("0.6"),
    quick_attention=billionths("0.2"),
    token_share_least=billionths("0.5"),
    token_share_gain=billionths("0.5"),
    min_token_floor=128,
    min_token_threshold=128,
    max_attempts=3,
    top_n=10,
    trace_chars=200,
    trace_rows=100,
    high_risk_actions=(
        "policy_change", "quarantine", "register_module", "module_registration",
        "self_modification", "sem_delete", "sem_write", "set_module_policy", "set_module_status",
        "set_router_config", "weight_change",
    ),
    tie_order=TIE_ORDER,
    numeric_epsilon=Billionths(1),
)  # fmt: skip


def router_config(given: GivenConfig) -> tuple[RouterConfig, tuple[str, ...]]:
    """Make the constants complete; the warnings name every default that was filled in."""
    warnings = tuple(
        f"router_config.{name}: default {default_text(name, getattr(DEFAULT_CONFIG, name))}"
        for name in GivenConfig.__struct_fields__
        if getattr(given, name) is UNSET
    )
    return changed_config(DEFAULT_CONFIG, given), warnings


def changed_config(config: RouterConfig, given: GivenConfig) -> RouterConfig:
    """Return the constants with the changed ones replaced."""
    values = {name: getattr(given, name) for name in GivenConfig.__struct_fields__}
    changes = {name: _exact(value) for name, value in values.items() if value is not UNSET}
    return structs.replace(config, **changes)


def _exact(value: object) -> object:
    if isinstance(value, Decimal):
        return billionths(str(value))
    if isinstance(value, tuple):
        # DETERMINISM: one order, whatever order they are written in.
        return tuple(sorted({action_key(str(each)) for each in value}))
    return value


def default_text(name: str, default: object) -> str:
    """Write a default as people write it."""
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    if isinstance(default, int) and name not in _WHOLE:
        return billionths_text(Billionths(default))
    return str(default)


_WHOLE: Final = (
    "min_token_floor", "min_token_threshold", "max_attempts", "top_n", "trace_chars", "trace_rows",
)  # fmt: skip
