"""The product's placement and the naive model of it agree on every combination there is."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.models import placement_model
from tests.models.placement_model import ACTIONS, Plain

from pointsman.kernel.instant import Instant
from pointsman.placement.compiled import CompiledPlacement, compile_policy
from pointsman.placement.decide import decide
from pointsman.placement.facts import (
    CountedBy,
    Failed,
    LocalModel,
    MaskedKind,
    Masking,
    PlacementFacts,
    Sensitivity,
    Taint,
)
from pointsman.placement.policy import BUILT_IN, placement_policy, read_policy

LIMIT = 100
TABLE: Plain = json.loads(msgspec.json.encode(BUILT_IN))
TABLE["defaults"]["token_threshold"] = LIMIT

LEVELS = ("local", "cloud", "auto")
OVERRIDES = ("none", "force_local", "force_remote")
NETWORKS = ("online", "degraded", "offline")
# Token counts below, at and above the limit: that of the table, and that of the local model.
COUNTS = (
    (LIMIT - 1, None),
    (LIMIT, None),
    (LIMIT + 1, None),
    (LIMIT - 1, LIMIT - 1),
    (LIMIT, LIMIT - 1),
    (LIMIT + 1, LIMIT + 1),
)
INTENTS = (None, "informational", "retrieval")
FITS = (((LIMIT, None), "informational"), ((LIMIT + 1, None), "retrieval"))
FINDS: tuple[Any, ...] = (None, "failed", ["pii.email"], ["pii.email", "secret.jwt"])
STORED = (
    {"route": "local", "rule_id": "AUTO_LOCAL", "fallback_allowed": True},
    {"route": "local", "rule_id": "PRIVACY_LOCAL", "fallback_allowed": False},
    {"route": "cloud", "rule_id": "AUTO_CLOUD", "fallback_allowed": False},
)
POLICIES = ((), *((action,) for action in ACTIONS), ("warn", "force_cloud", "force_local"))
SAID = (
    "route", "model", "rule_id", "error_code", "gate", "fallback_allowed", "requires_confirmation",
    "log_escalation",
)  # fmt: skip

Case = tuple[Plain, PlacementFacts]


def tables(*, confirmed: bool = False) -> Iterator[Plain]:
    """Give every kind of table: whether auto binds, what stays, which policy rules hold."""
    for auto, stays, actions in product(("advisory", "binding"), ((), ("secret",)), POLICIES):
        table = json.loads(json.dumps(TABLE))
        rules = [{"id": f"p{number}", "action": each} for number, each in enumerate(actions)]
        table |= {"auto": auto, "sensitive": {"stays_local": list(stays)}, "policy_rules": rules}
        if confirmed:
            table["failure_rules"][0]["action"]["requires_confirmation"] = True
        yield table


def ready(table: Plain, *, unreadable: bool = False) -> CompiledPlacement:
    policy = placement_policy(read_policy(json.dumps(table).encode(), "t", ("email",)))
    return compile_policy(msgspec.structs.replace(policy, is_unreadable=unreadable))


def questions() -> list[Case]:
    """Give every kind of question, state, history and override."""
    return [
        _case(*each, None)
        for each in product(
            LEVELS, product(COUNTS, INTENTS), (True, False), NETWORKS, ("c:m", ""), OVERRIDES,
            FINDS, (None, "t-1"),
        )
    ]  # fmt: skip


def failures() -> list[Case]:
    """Give every kind of failure; of the question's size only whether it fits counts."""
    return [
        _case(*each)
        for each in product(
            LEVELS, FITS, (True, False), NETWORKS, ("c:m", ""), OVERRIDES, FINDS, (None, "t-1"),
            STORED,
        )
    ]  # fmt: skip


def _case(  # noqa: PLR0917 - the dimensions of the space
    level: Any,
    asked: tuple[tuple[int, int | None], Any],
    available: bool,
    network: Any,
    cloud: str,
    override: Any,
    found: Any,
    taint: str | None,
    failed: Plain | None,
) -> Case:
    (count, most), intent = asked
    kinds = () if found in (None, "failed") else tuple(found)
    local = LocalModel("o:l", most, ("informational", "analytical"), available)
    facts = PlacementFacts(
        "q", "s", "text", level, intent, "", Instant(0), local, cloud, network, count,
        CountedBy("given", False), override,
        None if found is None else Sensitivity("d", found == "failed", len(kinds), kinds, ()),
        None if taint is None else Taint(taint, "PRIVACY_LOCAL"),
        None if failed is None else Failed(**failed),
    )  # fmt: skip
    plain = {
        "privacy_level": level, "token_count": count, "intent": intent, "network_state": network,
        "cloud_model": cloud, "human_override": override, "found": found, "taint": taint,
        "failed": failed, "local_model": msgspec.structs.asdict(local),
    }  # fmt: skip
    return plain, facts


def compared(table: Plain, cases: list[Case], *, unreadable: bool = False) -> Counter[str]:
    """Compare all cases under one table; give which rules and errors occurred."""
    policy = ready(table, unreadable=unreadable)
    seen: Counter[str] = Counter()
    for plain, facts in cases:
        outcome, _ = decide(policy, facts)
        want = placement_model.place(table, plain, unreadable=unreadable)
        got = {name: getattr(outcome, name) for name in SAID}
        assert got == want, (table, plain)
        seen[f"{outcome.rule_id} {outcome.error_code or outcome.route} {outcome.gate}"] += 1
    return seen


EVER = {
    "PRIVACY_LOCAL local local", "PRIVACY_LOCAL E-LOCAL-001 local",
    "PRIVACY_CLOUD cloud open", "PRIVACY_CLOUD E-CLOUD-001 open",
    "AUTO_LOCAL local open", "AUTO_LOCAL local local",
    "AUTO_CLOUD cloud open", "AUTO_CLOUD E-CLOUD-001 open",
    "POLICY_BLOCK E-ROUTE-001 closed",
    "POLICY_FORCE_LOCAL local local", "POLICY_FORCE_LOCAL E-LOCAL-001 local",
    "POLICY_FORCE_CLOUD cloud open", "POLICY_FORCE_CLOUD E-ROUTE-002 closed",
    "POLICY_FORCE_CLOUD E-CLOUD-001 open",
    "SENSITIVE_LOCAL local local", "SENSITIVE_LOCAL E-LOCAL-001 local",
    "SENSITIVE_UNKNOWN local local", "SENSITIVE_UNKNOWN E-LOCAL-001 local",
    "TAINT_LOCAL local local", "TAINT_LOCAL E-LOCAL-001 local",
    "NETWORK_UNAVAILABLE E-NET-001 open",
}  # fmt: skip
EVER_AFTER_A_FAILURE = {
    "LOCAL_EXECUTION_FAILURE cloud open", "LOCAL_EXECUTION_FAILURE E-CLOUD-001 open",
    "LOCAL_EXECUTION_FAILURE E-ROUTE-002 local",
    "LOCAL_EXECUTION_FAILURE_NO_FALLBACK E-LOCAL-001 local",
    "CLOUD_EXECUTION_FAILURE E-CLOUD-001 open",
    "NETWORK_UNAVAILABLE E-NET-001 open",
}  # fmt: skip


def test_masking_and_its_naive_model_agree() -> None:
    sensitive = [
        {"mask": ["pii"]},
        {"mask": ["email"], "stays_local": ["pii"]},
        {"mask": ["pii"], "stays_local": ["email"]},
        {"mask": ["secret"], "stays_local": ["pii"]},
        {"mask": ["pii", "secret"]},
    ]
    done = Masking((MaskedKind("pii.email", 1),))
    for given, policy in product(sensitive, POLICIES):
        table = json.loads(json.dumps(TABLE))
        rules = [{"id": f"p{number}", "action": each} for number, each in enumerate(policy)]
        table |= {"sensitive": given, "policy_rules": rules}
        cases: list[Case] = []
        for level, override, found, masking in product(
            LEVELS, OVERRIDES, FINDS, (UNSET, done, Masking((), obstacle="x"))
        ):
            plain, facts = _case(level, FITS[1], True, "online", "c:m", override, found, None, None)
            plain["masking"] = "done" if masking is done else ""
            cases.append((plain, msgspec.structs.replace(facts, masking=masking)))
        compared(table, cases)


@pytest.mark.slow
@pytest.mark.req(*range(84, 92), 97)
def test_placement_and_its_naive_model_agree_on_every_combination() -> None:
    cases = questions()
    seen: Counter[str] = Counter()
    for table in tables():
        seen += compared(table, cases)
    assert set(seen) == EVER
    assert seen.total() == 28 * 15_552


@pytest.mark.slow
@pytest.mark.req(78, 81, 92, 93, 94, 97, 98)
def test_placement_and_its_naive_model_agree_on_every_failure() -> None:
    cases = failures()
    seen: Counter[str] = Counter()
    for confirmed in (False, True):
        for table in tables(confirmed=confirmed):
            seen += compared(table, cases)
    assert set(seen) == EVER_AFTER_A_FAILURE
    assert seen.total() == 56 * 5_184


def test_placement_and_its_naive_model_agree_while_the_table_cannot_be_read() -> None:
    seen = compared(TABLE, [*questions(), *failures()], unreadable=True)
    routes = {each.split()[1] for each in seen}
    assert "cloud" not in routes
    assert seen["TABLE_UNREADABLE local local"] > 0


def test_the_naive_model_imports_nothing_of_the_product() -> None:
    assert "pointsman" not in Path(placement_model.__file__).read_text(encoding="utf-8")
