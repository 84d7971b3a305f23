"""Counts for operators, in the text format of Prometheus. No text of any message is in them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pointsman.errors import NotAuthenticated

BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
)  # fmt: skip

Labels = tuple[tuple[str, str], ...]

COUNTERS: Final = {
    "pointsman_requests_total": "requests to model endpoints, by endpoint and status",
    "pointsman_decisions_total": "decisions, by winning policy and model",
    "pointsman_rejections_total": "candidates that were rejected, by reason",
    "pointsman_upstream_requests_total": "calls to providers, by model and result",
    "pointsman_fallbacks_total": "turns that another model took over, by the one that failed",
    "pointsman_second_opinions_total": "second opinions, by whether an answer was taken or went up",
    "pointsman_tokens_total": "tokens, by model and type",
    "pointsman_spend_microusd_total": "what calls cost, in millionths of a dollar, by model",
    "pointsman_refused_calls_total": "calls a budget refused after the decision, by model",
    "pointsman_absurd_charges_total": "bills out of all proportion to their estimate, by model",
    "pointsman_refused_keys_total": "requests whose key was not taken, by reason",
    "pointsman_privacy_local_total": "turns that had to stay on this machine, by placement rule",
    "pointsman_beside_total": "what was done beside turns, by kind and result; dropped: no room",
}
HISTOGRAMS: Final = {
    "pointsman_overhead_seconds": "time spent here, without the provider's",
    "pointsman_request_seconds": "whole requests, by model",
    "pointsman_first_byte_seconds": "until the first byte of a stream's content left, by model",
    "pointsman_ledger_commit_seconds": "making a group of entries durable",
}


class Counter:
    """One counter, held by code that adds to it often."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Add a value."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total += seconds


class WorkerTotals(Struct, frozen=True):
    """The counts of one worker, by name and labels."""

    counters: dict[str, list[tuple[Labels, int]]]
    histograms: dict[str, list[tuple[Labels, list[int], float]]]


class _ModelCounters:
    """The counters of every call to one model, looked up once."""

    __slots__ = ("cost", "done", "input", "output", "request")

    def __init__(self, metrics: GatewayMetrics, model: str) -> None:
        labels = (("model", model),)
        self.done = metrics.cell(
            "pointsman_upstream_requests_total", (*labels, ("result", "success"))
        )
        self.input = metrics.cell("pointsman_tokens_total", (*labels, ("type", "input")))
        self.output = metrics.cell("pointsman_tokens_total", (*labels, ("type", "output")))
        self.cost = metrics.cell("pointsman_spend_microusd_total", labels)
        self.request = metrics.histogram("pointsman_request_seconds", labels)


class GatewayMetrics:
    """The counts of one process."""

    # Counters of every request are held by name: a look-up by labels costs as much as the adding.

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, Counter]] = {
            name: defaultdict(Counter) for name in COUNTERS
        }
        self._models: dict[str, _ModelCounters] = {}
        self._decided: dict[tuple[str, str], Counter] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {
            name: defaultdict(_Histogram) for name in HISTOGRAMS
        }
        self.overhead = self.histogram("pointsman_overhead_seconds", ())
        self.commit = self.histogram("pointsman_ledger_commit_seconds", ())
        self.in_flight = 0

    def count(self, name: str, labels: Labels, by: int = 1) -> None:
        """Add to a counter."""
        self._counters[name][labels].value += by

    def cell(self, name: str, labels: Labels) -> Counter:
        """Return a counter."""
        return self._counters[name][labels]

    def histogram(self, name: str, labels: Labels) -> _Histogram:
        """Return a histogram."""
        return self._histograms[name][labels]

    def of_model(self, model: str) -> _ModelCounters:
        """Return the counters of a model's calls."""
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = _ModelCounters(self, model)
        return found

    def count_decision(self, model: str, slot: str) -> None:
        """Count a decision."""
        cell = self._decided.get((model, slot))
        if cell is None:
            labels = (("model", model), ("policy", slot))
            cell = self._decided[model, slot] = self.cell("pointsman_decisions_total", labels)
        cell.value += 1

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Add to a histogram."""
        self._histograms[name][labels].observe(seconds)

    def refused_key(self, error: NotAuthenticated) -> None:
        """Count a key that was not taken; its caller is not told why."""
        self.count("pointsman_refused_keys_total", (("reason", error.reason or error.code),))

    def totals(self) -> WorkerTotals:
        """Return everything that was counted, to be added up with that of other workers."""
        return WorkerTotals(
            {
                name: [(labels, each.value) for labels, each in found.items()]
                for name, found in self._counters.items()
            },
            {
                name: [(labels, each.counts, each.total) for labels, each in found.items()]
                for name, found in self._histograms.items()
            },
        )

    def add(self, counted: WorkerTotals) -> None:
        """Add what another worker has counted."""
        for name, counters in counted.counters.items():
            for labels, value in counters:
                self.count(name, labels, value)
        for name, histograms in counted.histograms.items():
            for labels, counts, total in histograms:
                own = self.histogram(name, labels)
                own.counts = [sum(both) for both in zip(own.counts, counts, strict=True)]
                own.total += total

    def total(self, name: str) -> int:
        """Return the sum of a counter over all its labels."""
        return sum(each.value for each in self._counters[name].values())

    def text(self) -> str:
        """Write everything in the format that Prometheus reads."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        for name, told in COUNTERS.items():
            yield f"# HELP {name} {told}"
            yield f"# TYPE {name} counter"
            for labels, cell in sorted(self._counters[name].items()):
                yield f"{name}{label_text(labels)} {cell.value}"
        for name, told in HISTOGRAMS.items():
            yield f"# HELP {name} {told}"
            yield f"# TYPE {name} histogram"
            for labels, found in sorted(self._histograms[name].items()):
                yield from _histogram_lines(name, labels, found)


def _histogram_lines(name: str, labels: Labels, found: _Histogram) -> Iterator[str]:
    running = 0
    for bound, count in zip((*BUCKETS_S, "+Inf"), found.counts, strict=True):
        running += count
        yield f"{name}_bucket{label_text((*labels, ('le', str(bound))))} {running}"
    yield f"{name}_sum{label_text(labels)} {found.total:.6f}"
    yield f"{name}_count{label_text(labels)} {running}"


def label_text(labels: Labels) -> str:
    """Write labels as they stand behind a name."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
