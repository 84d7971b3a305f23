"""Agents' own traffic through our gateway and its peers, interleaved in one run.

Bodies of 20 KB, 150 KB and 1 MB in cycles of one message and four results of tools, whole and as
streams; rates, latency, CPU and memory a request, and what a small request waits beside large ones.
Writes bench/results/agents-traffic.json and docs/reference/agents-traffic.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from agent_bodies import SHAPES, bodies
from agents_traffic_page import page
from figures import round_figures
from gateway_load import (
    BUILD,
    ROOT,
    Mode,
    NotPossible,
    Target,
    body_file,
    count_answers,
    fake_upstream,
    load_result,
)
from gateway_systems import LiteLlm, Pointsman, Portkey, Running, System, TensorZero, last_words

from gateway import Others, conditions

RESULT = Path(__file__).parent / "results" / "agents-traffic.json"
PAGE = ROOT / "docs" / "reference" / "agents-traffic.md"
DIRECT = "direct"
BESIDE = 4
"""How many agents send a megabyte each while a small request is timed."""

Figures = dict[str, Any]


class Case(NamedTuple):
    """One way of loading a system."""

    shape: str
    connections: int
    mode: Mode = "plain"

    @property
    def name(self) -> str:
        kind = "_stream" if self.mode == "stream" else ""
        return f"{self.shape}{kind}_{self.connections}"


CASES = (
    Case("20k", 16), Case("20k", 64), Case("150k", 1), Case("150k", 16), Case("150k", 64),
    Case("150k", 256), Case("150k", 16, "stream"), Case("1m", 16),
)  # fmt: skip


class Ours(Pointsman):
    """Ours, with default settings: each answer's outcome must stand in the ledger."""

    def check_promises(self, running: Running, served: int) -> dict[str, object]:
        return self.check_ledger(running, served, "outcome")


class OursSensitive(Ours):
    """Ours, reading every request for secrets and personal data."""

    name = "Pointsman, sensitive"

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        found = super().command(folder, port, upstream)
        from pointsman.operations.starter import starter_text  # noqa: PLC0415 - peers do without

        policy = starter_text("placement.yaml").decode()
        if "\nsensitive:" not in policy:
            policy += "\nsensitive:\n  stays_local: [secret, payment_card, iban, bank_account]\n"
        (folder / "home" / "placement.yaml").write_text(policy)
        return found


def cycle_file(model: str, case: Case) -> Path:
    """Write the bodies of a turn, as the load generator reads them."""
    texts = bodies(SHAPES[case.shape], model, is_stream=case.mode == "stream")
    name = "".join(each if each.isalnum() else "-" for each in model)
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / f"cycle-{name}-{case.shape}-{case.mode}.txt"
    sizes = " ".join(str(len(each)) for each in texts)
    target.write_bytes(f"#cycle {len(texts)} {sizes}\n".encode() + b"".join(texts))
    return target


def measured(target: Target, case: Case, given: argparse.Namespace) -> Figures:
    body = cycle_file(target.model, case)
    # Each connection brings a history that is new: to read them all takes a while.
    warm_up_s = given.warm_up * (1 + case.connections / 64)
    load = target.start_load(body, case.connections, case.mode, warm_up_s, given.seconds)
    found = load_result(load)
    if not found["requests"]:
        print(f"no good answer at {case.name} ({found['last_error']})", flush=True)
    return found


def run_cases(target: Target, running: Running | None, given: argparse.Namespace) -> Figures:
    found: Figures = {}
    for case in CASES:
        before = 0.0 if running is None else running.cpu_s()
        seen = measured(target, case, given)
        if running is not None:
            seen["cpu_ms"] = 1e3 * (running.cpu_s() - before) / max(1, seen["sent"])
            seen["mib"] = running.rss_mib()
        found[case.name] = seen
    found["small_alone"] = beside(target, given, 0)
    found["small_beside_1m"] = beside(target, given, BESIDE)
    return found


def beside(target: Target, given: argparse.Namespace, agents: int) -> Figures:
    """Time small requests, one after the other, beside so many agents that send a megabyte."""
    small, others = body_file(target.model, is_stream=False), None
    if agents:
        large = cycle_file(target.model, Case("1m", agents))
        lasting = given.warm_up + given.seconds
        others = target.start_load(large, agents, "plain", 0, lasting)
    try:
        return load_result(target.start_load(small, 1, "plain", given.warm_up, given.seconds))
    finally:
        if others is not None:
            load_result(others)


@contextmanager
def loaded(
    system: System | None, upstream: int, versions: Figures
) -> Iterator[tuple[Target, Running | None]]:
    """Start a system, and stop and check it after its load; None is the upstream itself."""
    if system is None:
        yield Target(upstream, "/v1/chat/completions", "bench"), None
        return
    with system.folder() as folder:
        before = count_answers(upstream)
        try:
            with system.running(upstream, folder) as running:
                yield running.target, running
        except NotPossible as error:
            raise NotPossible(f"{error}: {last_words(folder)}") from error
        checked = system.check_promises(running, count_answers(upstream) - before)
        if checked:
            versions.setdefault("checked", []).append(checked)


def run_rounds(systems: list[System], upstream: int, given: argparse.Namespace) -> Figures:
    """Run every round, each in the opposite order of the last."""
    found: Figures = {"systems": {}, "skipped": {}}
    order: list[System | None] = [None, *systems]
    for number in range(given.rounds):
        for system in order if number % 2 == 0 else reversed(order):
            name = DIRECT if system is None else system.name
            if name in found["skipped"]:
                continue
            try:
                with loaded(system, upstream, found) as (target, running):
                    seen = run_cases(target, running, given)
            except NotPossible as error:
                if isinstance(system, Ours):
                    raise
                found["skipped"][name] = str(error)
                print(f"round {number + 1} {name} skipped: {error}", flush=True)
                continue
            found["systems"].setdefault(name, []).append(seen)
            rates = "  ".join(
                f"{case} {each['per_s']:,.0f} ({each.get('cpu_ms', 0):.2g} ms)"
                for case, each in seen.items()
            )
            print(f"round {number + 1} {name:20} req/s: {rates}", flush=True)
    return found


def medians(rounds: list[Figures]) -> Figures:
    """Return the medians of a system's rounds."""
    found: Figures = {}
    for case in rounds[0]:
        seen = [each[case] for each in rounds]
        found[case] = {
            name: statistics.median(read(each) for each in seen)
            for name, read in (
                ("per_s", lambda each: each["per_s"]),
                ("p50_us", lambda each: each["latency"]["p50_us"]),
                ("p99_us", lambda each: each["latency"]["p99_us"]),
                ("cpu_ms", lambda each: each.get("cpu_ms", 0.0)),
                ("mib", lambda each: each.get("mib", 0.0)),
            )
        }
        found[case]["errors"] = sum(each["errors"] for each in seen)
    return found


def prepare(given: argparse.Namespace, skipped: Figures) -> tuple[list[System], Figures]:
    found: list[System] = []
    versions: Figures = {}
    for system in (Ours(), OursSensitive(), TensorZero(), Portkey(), LiteLlm()):
        if given.only and not isinstance(system, Ours) and system.name not in given.only:
            continue
        try:
            versions[system.name] = system.prepare()
            found.append(system)
        except NotPossible as error:
            skipped[system.name] = str(error)
    return found, versions


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm-up", type=float, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="these peers, beside ours")
    parser.add_argument("--note", default="", help="what else was running on the machine")
    parser.add_argument("--trial", action="store_true", help="one short round; writes nothing")
    given = parser.parse_args()
    if given.trial:
        given.rounds, given.seconds, given.warm_up = 1, 1.0, 0.3
    return given


def main() -> None:
    given = read_arguments()
    skipped: Figures = {}
    systems, versions = prepare(given, skipped)
    told = conditions(given)
    others = Others()
    with fake_upstream() as upstream:
        found = run_rounds(systems, upstream, given)
    told["load_average_after"] = os.getloadavg()[0]
    told["others_share_of_cpu"] = others.share()
    told["note"] = given.note or told["note"]
    found["conditions"], found["versions"] = told, versions
    found["skipped"] |= skipped
    found["systems"] = {name: medians(each) for name, each in found["systems"].items()}
    whole = round_figures(found)
    print(page(whole))
    if given.trial or given.only:
        print("a trial: nothing was written")
        return
    RESULT.write_text(json.dumps(whole, indent=2) + "\n")
    PAGE.write_text(page(whole), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except NotPossible as error:
        sys.exit(f"bench-agents-traffic: {error}")
