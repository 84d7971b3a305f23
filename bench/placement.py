"""How long a placement takes: alone, with policy rules, with everything on, and within a ruling.

Times depend on the machine; the ratios to the bare table of the same run do not. Writes
bench/results/placement.json and a plot.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import matplotlib as mpl
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent))

from decide import FACTS as TURN
from decide import MESSAGE, RESULTS, _rounded, policy, times

from pointsman.kernel.canonical import ContentId
from pointsman.kernel.instant import Instant
from pointsman.placement.compiled import CompiledPlacement, compile_policy
from pointsman.placement.decide import decide
from pointsman.placement.facts import (
    CountedBy,
    Failed,
    LocalModel,
    PlacementFacts,
    Sensitivity,
    Taint,
)
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.placement.rules.policy_rule import GivenPolicyCondition, GivenPolicyRule
from pointsman.placement.rules.table import Sensitive
from pointsman.recording.ruling import Policies, decide_turn
from pointsman.turns.decide import decide as decide_model

PROMISED_US = 15
COUNT = 20_000
ID = ContentId("sha256:" + "0" * 64)
FACTS = PlacementFacts(
    question_id="q",
    session_id="s",
    content=MESSAGE,
    privacy_level="auto",
    intent="informational",
    constraints_id="",
    asked_at=Instant(0),
    local_model=LocalModel(
        model_name="ollama:llama3.2",
        max_tokens=8_192,
        supported_intents=("informational", "analytical"),
        available=True,
    ),
    cloud_model="acme:large",
    network_state="online",
    token_count=1_200,
    counted_by=CountedBy("llama3", is_exact=True),
)
FOUND = Sensitivity("d", has_failed=False, total=2, kinds=("pii.email", "pii.iban"), findings=())


def rules(count: int) -> tuple[GivenPolicyRule, ...]:
    """Return policy rules as people write them, none of which holds."""
    kinds = [
        lambda n: GivenPolicyCondition("content", "contains", f"project {n}|codename {n}"),
        lambda n: GivenPolicyCondition("token_count", "exceeds", 80_000 + n),
        lambda n: GivenPolicyCondition("intent", "equals", f"intent {n}"),
        lambda n: GivenPolicyCondition("content", "equals", f"ping {n}"),
    ]
    return tuple(
        GivenPolicyRule(f"rule {n:03}", "force_local", (kinds[n % len(kinds)](n),), priority=n)
        for n in range(count)
    )


def table(count: int = 0, *stays: str) -> CompiledPlacement:
    given = replace(BUILT_IN, policy_rules=rules(count), sensitive=Sensitive(stays))
    return compile_policy(placement_policy(given))


def kinds() -> dict[str, dict[str, float]]:
    """Time each way a question can take through the bare table."""
    bare, watching = table(), table(0, "secret", "iban")
    failed = Failed("local", "AUTO_LOCAL", fallback_allowed=True)
    asked = {
        "auto_local": (bare, FACTS),
        "auto_cloud": (bare, replace(FACTS, token_count=9_999)),
        "privacy_local": (bare, replace(FACTS, privacy_level="local")),
        "privacy_cloud": (bare, replace(FACTS, privacy_level="cloud")),
        "offline": (bare, replace(FACTS, privacy_level="cloud", network_state="offline")),
        "override": (bare, replace(FACTS, human_override="force_remote")),
        "tainted": (bare, replace(FACTS, taint=Taint("t", "PRIVACY_LOCAL"))),
        "sensitive": (watching, replace(FACTS, sensitivity=FOUND)),
        "escalation": (bare, replace(FACTS, failed=failed)),
    }
    for ready, facts in asked.values():
        times(lambda ready=ready, facts=facts: decide(ready, facts), 500)
    return {
        name: times(lambda ready=ready, facts=facts: decide(ready, facts), COUNT)
        for name, (ready, facts) in asked.items()
    }


def growth() -> dict[str, dict[str, float]]:
    found = {}
    for count in (1, 3, 10, 30, 100, 300, 1_000):
        ready = table(count)
        repeats = 4_000 if count <= 100 else 500
        found[str(count)] = times(lambda ready=ready: decide(ready, FACTS), repeats)
    return found


def everything() -> dict[str, float]:
    """100 policy rules, a detector's findings, a decision that was asked of all of it."""
    ready = table(100, "secret", "payment_card")
    facts = replace(FACTS, sensitivity=FOUND)
    return times(lambda: decide(ready, facts), COUNT)


def share() -> dict[str, float]:
    """What part of a whole ruling, with 100 routing rules, the placement is."""
    policies = Policies(table(), ID, policy(100), ID)
    whole = times(lambda: decide_turn(policies, FACTS, TURN), COUNT)
    turn = times(lambda: decide_model(policies.turns, TURN), COUNT)
    alone = times(lambda: decide(policies.placement, FACTS), COUNT)
    return {
        "ruling_p50_us": whole["p50_us"],
        "turn_alone_p50_us": turn["p50_us"],
        "placement_alone_p50_us": alone["p50_us"],
        "placement_of_ruling": alone["p50_us"] / whole["p50_us"],
    }


def plot(found: dict[str, dict[str, float]], target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    figure, axis = plt.subplots(figsize=(6, 3.6))
    counts = [int(count) for count in found]
    for name in ("p50_us", "p99_us"):
        axis.plot(counts, [each[name] for each in found.values()], marker="o", label=name[:-3])
    axis.set(xscale="log", yscale="log", xlabel="policy rules", ylabel="µs a placement")
    axis.legend()
    axis.grid(visible=True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    ways, grown, hundred = kinds(), growth(), table(100)
    found = {
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "message_chars": len(MESSAGE),
            "promised_us": PROMISED_US,
            "note": "shared, noisy cores; the ratio to the bare table is of one run",
        },
        "bare_table": ways["auto_local"],
        "ways": ways,
        "hundred_policy_rules": times(lambda: decide(hundred, FACTS), COUNT),
        "everything": everything(),
        "share": share(),
        "growth": grown,
        "times_bare_table": {
            count: each["p50_us"] / ways["auto_local"]["p50_us"] for count, each in grown.items()
        },
    }
    (RESULTS / "placement.json").write_text(json.dumps(_rounded(found), indent=2) + "\n")
    plot(grown, RESULTS / "placement.svg")
    print(json.dumps(_rounded(found), indent=2))


if __name__ == "__main__":
    main()
