"""The contents of the pattern store and their reliability: `pointsman patterns report`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pointsman.kernel.number import Billionths, divide, ratio
from pointsman.storage.stores.patterns.outcomes import ModelTotal
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.learning.calibration import MOST_TRIED, Reliability, reliability
from pointsman.turns.learning.evidence import estimate
from pointsman.turns.learning.evidence_choice import weigh
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern import PatternSettings


class TaskCoverage(Struct, frozen=True):
    """One kind of task: its fingerprints, how often each model was judged, the store's confidence.

    `leads` is the model it would name most often; `effective_rows` are those behind the first
    choice, in thousandths, on average; `silent` counts the looks about which it would say nothing.
    """

    task: str
    looks: int
    judged: dict[str, int]
    success: dict[str, Billionths]
    leads: str
    effective_rows: int
    confidence: Billionths
    silent: int

    @property
    def should_stay_silent(self) -> bool:
        """Whether the store has too little to go by: on most of these turns, or of their kind."""
        return 2 * self.silent > self.looks or not self.judged


class PatternReport(Struct, frozen=True):
    """All of it. `tried` looks were estimated from all others, as if they were new."""

    models: tuple[ModelTotal, ...]
    origins: dict[str, int]
    tasks: tuple[TaskCoverage, ...]
    tried: int
    reliability: tuple[Reliability, ...]

    @property
    def mean_error(self) -> Billionths | None:
        """How far estimates are off, tenth by tenth, weighed by how many there are."""
        count = sum(each.count for each in self.reliability)
        off = sum(each.count * abs(each.expected - each.observed) for each in self.reliability)
        return Billionths(divide(off, count)) if count else None


class _Estimate(Struct, frozen=True):
    task: str
    judged: dict[str, int]
    success: dict[str, int]
    first: str
    effective_rows: int
    confidence: Billionths
    is_silent: bool


def pattern_report(store: PatternStore, settings: PatternSettings) -> PatternReport:
    """Summarise the whole pattern store under the settings of a policy."""
    estimates: list[_Estimate] = []
    pairs: list[tuple[int, int]] = []
    with store.experience() as found:
        if found is not None:
            known, connection = found
            looks = known.fingerprints(connection)
            for place, near in known.left_out(settings.k):
                expected = {each.model: each.success for each in map(estimate, near.models)}
                outcomes = known.index.outcomes(place)
                judged = {model: each.judged for model, each in outcomes.items() if each.judged}
                pairs += [
                    (expected[model], divide(outcomes[model].success, count))
                    for model, count in judged.items()
                    if model in expected
                ]
                weighed = weigh(near, settings)
                rows = weighed.options[0].effective_rows if weighed.options else 0
                estimates.append(
                    _Estimate(
                        task_of(looks[known.index.ids[place]]),
                        judged,
                        {model: outcomes[model].success for model in judged},
                        weighed.options[0].model if weighed.options else "",
                        rows if isinstance(rows, int) else 0,
                        weighed.confidence,
                        weighed.model is None,
                    )
                )
    return PatternReport(
        tuple(store.report()),
        store.origins(),
        tuple(_coverage(estimates)),
        min(len(estimates), MOST_TRIED),
        tuple(reliability(pairs)),
    )


def task_of(fingerprint: Fingerprint) -> str:
    """Return the kind of a task: its workload, else the intents of its words."""
    return fingerprint.workload_id or "+".join(fingerprint.intent_tags) or "other"


def _coverage(estimates: Sequence[_Estimate]) -> Iterable[TaskCoverage]:
    tasks: dict[str, list[_Estimate]] = {}
    for each in estimates:
        tasks.setdefault(each.task, []).append(each)
    for task, found in sorted(tasks.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        judged: Counter[str] = Counter()
        success: Counter[str] = Counter()
        for each in found:
            judged.update(each.judged)
            success.update(each.success)
        named = Counter(each.first for each in found if each.first)
        yield TaskCoverage(
            task=task,
            looks=len(found),
            judged=dict(sorted(judged.items())),
            success={
                model: Billionths(divide(success[model], count))
                for model, count in sorted(judged.items())
            },
            leads=min(named, key=lambda model: (-named[model], model), default=""),
            effective_rows=divide(sum(each.effective_rows for each in found), len(found)),
            confidence=Billionths(divide(sum(each.confidence for each in found), len(found))),
            silent=sum(each.is_silent for each in found),
        )


_COLUMNS = 40


def reliability_text(found: Sequence[Reliability]) -> list[str]:
    """Draw expected against observed success as text: `|` is expected, `*` observed."""
    if not found:
        return ["no turn was judged yet: there is nothing to compare with"]
    lines = ["expected  observed   runs  | expected, * observed: the closer, the better"]
    for each in found:
        bar = [" "] * (_COLUMNS + 1)
        bar[divide(_COLUMNS * each.expected, 10**9)] = "|"
        bar[divide(_COLUMNS * each.observed, 10**9)] = "*"
        shown = f"{_percent(each.expected):>8}  {_percent(each.observed):>8}  {each.count:>5}"
        lines.append(f"{shown}  {''.join(bar)}".rstrip())
    return lines


def reliability_svg(found: Sequence[Reliability]) -> str:
    """Draw expected against observed success; the same figures give the same bytes."""
    most = max((each.count for each in found), default=1)
    dots = [
        f'<circle cx="{_x(each.expected)}" cy="{_y(each.observed)}" '
        f'r="{3 + ratio(each.count, most) * 7 // 10**9}" fill="#2f6f9f" fill-opacity="0.8">'
        f"<title>{each.count} turns: expected {_percent(each.expected)}, "
        f"observed {_percent(each.observed)}</title></circle>"
        for each in found
    ]
    frame = 'viewBox="0 0 440 440" role="img" font-family="sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} fill="#1f2933">',
        "<title>expected and observed success</title>",
        '<rect width="440" height="440" fill="#ffffff"/>',
        '<rect x="40" y="20" width="380" height="380" fill="none" stroke="#9aa5b1"/>',
        '<path d="M40 400 L420 20" stroke="#9aa5b1" stroke-dasharray="4 4"/>',
        '<text x="180" y="430">expected success</text>',
        '<text x="14" y="260" transform="rotate(-90 14 260)">observed success</text>',
        *dots,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _x(share: int) -> int:
    return 40 + divide(380 * share, 10**9)


def _y(share: int) -> int:
    return 400 - divide(380 * share, 10**9)


def _percent(share: int) -> str:
    return f"{divide(share, 10**7)} %"
