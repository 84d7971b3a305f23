"""`patterns`: list, show, forget and import the outcomes of similar turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import click
import msgspec
from msgspec import UNSET, Meta, Struct

from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import MOST_INPUT, Session, command, count_text, read_input, waits
from pointsman.errors import Problem
from pointsman.kernel.canonical import content_id
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, DocumentLimits, printable
from pointsman.kernel.instant import instant_text
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import (
    Billionths,
    MicroUsd,
    billionths,
    billionths_text,
    microusd,
    microusd_text,
)
from pointsman.kernel.schema import conform
from pointsman.learning.pattern_report import (
    PatternReport,
    TaskCoverage,
    pattern_report,
    reliability_svg,
    reliability_text,
)
from pointsman.learning.recorded_runs import rebuild_vectors
from pointsman.learning.verdict_counts import count_verdicts
from pointsman.storage.stores.patterns.outcomes import ModelTotal, Outcome, Pattern, Summary
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.turns.learning.fingerprint import Fingerprint, Surroundings, fingerprint_of
from pointsman.turns.registry.models import model_id

SHORT_ID = 12
_LIMITS = DocumentLimits(bytes=MOST_INPUT, nodes=1_000_000)


class PatternImportRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of an import: means over `sample_size` turns that looked alike.

    How they looked is said by a `message`, by a `fingerprint`, or by both: then the message adds
    its text, and its intents where the fingerprint has none.
    """

    model: Annotated[str, Meta(min_length=1, max_length=200)]
    cost_usd: Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1_000})]
    sample_size: Annotated[int, Meta(ge=1, le=1_000_000)]
    success: Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})] | None = None
    message: str | None = None
    fingerprint: Fingerprint | None = None


@click.group(cls=CommandGroup)
def patterns() -> None:
    """Look at, forget and import what similar turns are remembered for."""


@patterns.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most.")
@command
def list_(session: Session, limit: int) -> None:
    """List fingerprints, the most lately seen first."""
    with _store(session) as store:
        found = store.summaries(limit)
    lines = [_summary_line(each) for each in found] or ["no pattern is recorded yet"]
    session.show("\n".join(lines), [_summary_value(each) for each in found])


@patterns.command()
@click.argument("name", metavar="ID")
@command
def show(session: Session, name: str) -> None:
    """Show one fingerprint and how each model did on it; the start of an id is enough."""
    with _store(session) as store:
        pattern = store.show(name)
    session.show(_pattern_text(pattern), _pattern_value(pattern))


@patterns.command()
@click.argument("name", metavar="ID")
@command
def delete(session: Session, name: str) -> None:
    """Forget one fingerprint and all that was counted for it."""
    with _store(session) as store:
        deleted = store.delete(name)
    session.show(f"forgotten  {deleted}", {"deleted": deleted})


@patterns.command("import")
@click.argument("file", metavar="FILE|-")
@command
@waits("importing")
def import_(session: Session, file: str) -> None:
    """Count outcomes from a JSON file that holds a list of rows.

    Each row has a "message" or a "fingerprint", a "model", "cost_usd" and "sample_size", and may
    have a "success" between 0 and 1. Rows that were imported before are skipped.
    """
    given = conform(read_json(*read_input(file), _LIMITS), tuple[PatternImportRow, ...], _problems)
    with session.open(create=True) as pointsman:
        rows = _rows(given, pointsman.gathering.vector_of)
        with closing(PatternStore(pointsman.home.patterns)) as store:
            done = store.import_rows(rows, pointsman.clock.now())
    text = f"{count_text(done.added, 'row')} imported, {done.skipped} known already"
    evicted = sum(each.entries_evicted for each in done.evicted)
    if evicted:
        text += f", {count_text(evicted, 'old fingerprint')} given up"
    session.show(text, done)


@patterns.command()
@command
@waits("making vectors")
def revector(session: Session) -> None:
    """Make missing vectors of tokens, from the texts in the ledger.

    Turns whose tokens an earlier release made otherwise, or not at all, are found by their letters
    alone until then. So are those whose text was erased, and those that were imported.
    """
    with (
        session.open(create=False) as pointsman,
        closing(PatternStore(pointsman.home.patterns)) as store,
    ):
        done = rebuild_vectors(pointsman.home, store, pointsman.gathering.vector_of)
    text = f"{count_text(done.made, 'look')} made anew"
    session.show(f"{text}, {done.left} known by letters alone" if done.left else text, done)


@patterns.command()
@click.option("--svg", type=click.Path(dir_okay=False), help="Draw the calibration to this file.")
@command
@waits("estimating")
def report(session: Session, svg: str | None) -> None:
    """Show what is known about models and tasks, and how far the estimates can be trusted.

    Every recorded turn is estimated from all others, as if it were new, and compared with what came
    of it. Tasks on which the store has too little to go by are named: there it should stay silent.

    A task is a workload, or what the words of a turn are about. Effective rows are how many equally
    near, judged turns stand behind a choice; confidence is the chance that the first model is
    really better than the second.
    """
    with session.open(create=False) as pointsman:
        settings = pointsman.files.in_force().ready.policy.pattern
        with closing(PatternStore(pointsman.home.patterns)) as store:
            found = pattern_report(store, settings)
        verdicts = count_verdicts(pointsman.home)
    is_used = settings.mode != "off" and settings.method is not UNSET
    if svg is not None:
        Path(svg).write_text(reliability_svg(found.reliability), encoding="utf-8")
    text = "\n".join(_report_lines(found, verdicts, is_used=is_used))
    session.show(text, {**_report_value(found), "verdicts": verdicts})


def _report_lines(found: PatternReport, verdicts: dict[str, int], *, is_used: bool) -> list[str]:
    if not found.models:
        return ["no pattern is recorded yet"]
    error = found.mean_error
    told = "" if error is None else f"; off by {_percent(error)} on average"
    return [
        f"{'model':<28} {'looks':>6} {'runs':>6} {'judged':>7} {'success':>8}  mean cost",
        *(_model_line(each) for each in found.models),
        *(_ORIGINS[name].format(count_text(count, "run")) for name, count in found.origins.items()),
        *_verdict_lines(verdicts),
        "",
        f"{'task':<28} {'looks':>6} {'effective rows':>15} {'confidence':>11}  leads",
        *(line for each in found.tasks for line in _task_lines(each)),
        "",
        f"calibration, {count_text(found.tried, 'turn')} left out one by one{told}",
        *reliability_text(found.reliability),
        *([] if is_used else ["", _UNUSED]),
    ]


_ORIGINS = {
    "explored": "{} of them explored: sent to the runner-up to learn about it",
    "shadow": "{} of them in the shadow: run again beside an answer",
}
_UNUSED = "these are estimates of the method `evidence`, which the policy in force does not use"


_VERDICTS = {
    "user": "given by users",
    "judge": "of a judge",
    "test": "of tests",
    "retry": "as the user asked again",
    "manual_swap": "as the user took another model",
    "edit_followup": "as the user put it differently",
}


def _verdict_lines(verdicts: dict[str, int]) -> list[str]:
    """Tell how many verdicts of each kind are recorded."""
    told = [f"{count:,} {_VERDICTS.get(kind, kind)}" for kind, count in verdicts.items()]
    return [f"verdicts recorded: {', '.join(told)}"] if told else []


def _model_line(total: ModelTotal) -> str:
    success = "-" if total.mean_success is None else _percent(total.mean_success)
    cost = microusd_text(total.mean_cost_microusd)
    counts = f"{total.fingerprints:>6} {total.samples:>6} {total.judged:>7} {success:>8}"
    return printable(f"{total.model:<28} {counts}  ${cost}")


def _task_lines(each: TaskCoverage) -> list[str]:
    # Rounded down: no choice is certain.
    rows, sure = f"{each.effective_rows / 1000:.1f}", f"{each.confidence // 10_000_000} %"
    first = each.leads or "-"
    if each.should_stay_silent:
        first = "should stay silent" if each.judged else "should stay silent: none was judged"
    judged = [
        f"  {model:<26} {count:>6} judged, success {_percent(each.success[model])}"
        for model, count in each.judged.items()
    ]
    head = f"{each.task:<28} {each.looks:>6} {rows:>15} {sure:>11}  {first}"
    return [printable(line) for line in (head, *judged)]


def _percent(share: int) -> str:
    return f"{(share + 5_000_000) // 10_000_000} %"


def _report_value(found: PatternReport) -> dict[str, object]:
    return {
        "models": [_total_value(each) for each in found.models],
        "origins": found.origins,
        "tasks": [
            {
                "task": each.task,
                "looks": each.looks,
                "judged": each.judged,
                "success": {model: _number(share) for model, share in each.success.items()},
                "leads": each.leads or None,
                "effective_rows": each.effective_rows / 1000,
                "confidence": _number(each.confidence),
                "silent": each.silent,
                "should_stay_silent": each.should_stay_silent,
            }
            for each in found.tasks
        ],
        "tried": found.tried,
        "mean_error": _number(found.mean_error),
        "reliability": [
            {
                "expected": _number(each.expected),
                "observed": _number(each.observed),
                "count": each.count,
            }
            for each in found.reliability
        ],
    }


@contextmanager
def _store(session: Session) -> Iterator[PatternStore]:
    """Open the pattern store of the home."""
    with (
        session.open(create=False) as pointsman,
        closing(PatternStore(pointsman.home.patterns)) as store,
    ):
        yield store


def _rows(given: Sequence[PatternImportRow], vector_of: Callable[[str], bytes]) -> list[ImportRow]:
    seen: Counter[str] = Counter()
    rows = []
    for each in given:
        # Two equal rows of one file are two; the same file again brings the same names again.
        content = content_id(msgspec.json.encode(each, order="sorted"))
        seen[content] += 1
        rows.append(_row(each, f"{content}#{seen[content]}", vector_of))
    return rows


def _problems(given: tuple[PatternImportRow, ...], document: Document) -> Iterable[Problem]:
    for place, row in enumerate(given):
        if row.message is None and row.fingerprint is None:
            message = "neither `message` nor `fingerprint` says what the turns looked like"
            yield document.problem((place,), Code.MISSING_KEY, message)


def _row(given: PatternImportRow, name: str, vector_of: Callable[[str], bytes]) -> ImportRow:
    message = given.message or ""
    fingerprint = given.fingerprint or Fingerprint()
    if not fingerprint.intent_tags:
        tags = fingerprint_of(message, Surroundings()).intent_tags
        fingerprint = msgspec.structs.replace(fingerprint, intent_tags=tags)
    return ImportRow(
        id=name,
        fingerprint=fingerprint,
        vector=vector_of(message),
        model=model_id(given.model),
        success=None if given.success is None else billionths(f"{given.success:f}"),
        cost_microusd=microusd(f"{given.cost_usd:f}"),
        sample_size=given.sample_size,
    )


def _short(name: str) -> str:
    return name.removeprefix("sha256:")[:SHORT_ID]


def _summary_line(summary: Summary) -> str:
    tags = ",".join(summary.fingerprint.intent_tags) or "-"
    models = " ".join(summary.models)
    seen = instant_text(summary.updated)[:10]
    samples = count_text(summary.samples, "sample")
    return printable(f"{_short(summary.fingerprint_id)}  {seen}  {samples:<12} {tags:<20} {models}")


def _summary_value(summary: Summary) -> dict[str, object]:
    return {**msgspec.structs.asdict(summary), "updated": instant_text(summary.updated)}


def _pattern_text(pattern: Pattern) -> str:
    summary = pattern.summary
    text = "with a text vector" if summary.has_vector else "without a text vector"
    seen = f"last seen {instant_text(summary.updated)}"
    lines = [summary.fingerprint_id, f"{seen}, {count_text(summary.samples, 'sample')}, {text}"]
    fields = msgspec.structs.asdict(summary.fingerprint)
    lines += [f"  {name:<30} {_field_text(value)}" for name, value in fields.items()]
    lines += [_outcome_line(each) for each in pattern.outcomes]
    return "\n".join(printable(line) for line in lines)


def _field_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in {None, ""} else str(value)


def _outcome_line(outcome: Outcome) -> str:
    return (
        f"{outcome.model:<40} success {_score_text(outcome.success):<12} "
        f"cost ${microusd_text(outcome.mean_cost):<10} {count_text(outcome.samples, 'sample')}"
    )


def _pattern_value(pattern: Pattern) -> dict[str, object]:
    return {
        **_summary_value(pattern.summary),
        "models": [each.model for each in pattern.outcomes],
        "outcomes": [_outcome_value(each) for each in pattern.outcomes],
    }


def _outcome_value(outcome: Outcome) -> dict[str, object]:
    return {
        "model": outcome.model,
        "success": _number(outcome.success),
        "cost_usd": _price(outcome.mean_cost),
        "sample_size": outcome.samples,
        "judged": outcome.score_count,
        "latency_sum_ms": outcome.latency_ms,
        "pricing_version": outcome.pricing_version,
        "updated": instant_text(outcome.updated),
    }


def _total_value(total: ModelTotal) -> dict[str, object]:
    return {
        "model": total.model,
        "fingerprints": total.fingerprints,
        "samples": total.samples,
        "judged": total.judged,
        "mean_success": _number(total.mean_success),
        "mean_cost_usd": _price(total.mean_cost_microusd),
    }


def _score_text(score: Billionths | None) -> str:
    return "-" if score is None else billionths_text(score)


def _number(score: Billionths | None) -> msgspec.Raw | None:
    return None if score is None else msgspec.Raw(billionths_text(score).encode())


def _price(cost: MicroUsd) -> str:
    return microusd_text(cost)
