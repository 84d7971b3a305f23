"""`decision log`, `distribution`, `lineage` and `cache`: recorded and kept answers of decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click

from pointsman.app import Pointsman, SystemClock
from pointsman.cli.decision_terms import decisions_in_force, is_begun
from pointsman.cli.groups import CommandGroup, ExampleCommand
from pointsman.cli.terms import Session, command, count_text
from pointsman.errors import NotFound
from pointsman.kernel.columns import column_count, pad_line, table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, instant_text, read_instant
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.decision_cache import MOST_ANSWERS, DecisionCache, cache_counts
from pointsman.storage.stores.entries import LedgerReader
from pointsman.workflows.branch_log import BranchLog, Distribution, LogEntry, duration, log_value
from pointsman.workflows.branching import CACHE_FILE
from pointsman.workflows.graph import Graph, subgraph
from pointsman.workflows.graph_drawing import FORMATS, draw
from pointsman.workflows.lineage import impact, lineage_graph, matching_nodes

MOST_LISTED = 100
BAR = 40


@click.command(cls=ExampleCommand)
@click.option("--decision-id", metavar="ID", help="Only this decision.")
@click.option("--workflow-id", metavar="ID", help="Only this run.")
@click.option("--since", metavar="INSTANT", help="Only from this instant on (RFC 3339).")
@command
def log(
    session: Session, decision_id: str | None, workflow_id: str | None, since: str | None
) -> None:
    """List recorded evaluations in the order they happened."""
    start = EPOCH if since is None else read_instant(since)
    entries: list[LogEntry] = []
    if is_begun(session):
        with session.open() as pointsman, branch_log(pointsman) as found:
            entries = [] if found is None else list(found.query(decision_id, workflow_id, start))
    session.show(_log_text(entries), [log_value(each) for each in entries])


@click.command(cls=ExampleCommand)
@click.argument("decision_id", metavar="ID")
@command
def distribution(session: Session, decision_id: str) -> None:
    """Show how often each branch of a decision was taken."""
    found = Distribution(decision_id, 0, {})
    if is_begun(session):
        with session.open() as pointsman, branch_log(pointsman) as entries:
            found = found if entries is None else entries.distribution(decision_id)
    if not found.total:
        # Raises, with the nearest name, where there is no such decision at all.
        decisions_in_force(session).ready.decision(decision_id)
    session.show(_bars(found), found)


@contextmanager
def branch_log(pointsman: Pointsman) -> Iterator[BranchLog | None]:
    """Open the log of a home; None where nothing is recorded yet."""
    path = pointsman.home.database
    if not path.exists():
        yield None
        return
    with told_errors(path), closing(LedgerReader(path)) as ledger:
        yield BranchLog(ledger)


def _log_text(entries: list[LogEntry]) -> str:
    if not entries:
        return "no evaluation is recorded"
    shown = entries[-MOST_LISTED:]
    rows = [
        (instant_text(each.at), each.outcome.decision_id, ", ".join(each.outcome.selected_labels),
         ", ".join(each.outcome.selected_targets) or "nothing", each.about.workflow_id,
         each.about.stage_id, "yes" if each.is_cached else "no")
        for each in shown
    ]  # fmt: skip
    head = ("TIME", "DECISION", "LABEL", "TARGET", "WORKFLOW", "STAGE", "CACHED")
    lines = [table([head, *rows])]
    if len(entries) > len(shown):
        lines.insert(0, f"… {len(entries) - len(shown)} earlier ones in --json")
    return "\n".join(lines)


def _bars(found: Distribution) -> str:
    """Draw the shares; a bar of full length is all of the labels."""
    lines = [f"{found.decision_id}: {count_text(found.total, 'evaluation')}"]
    every = sum(found.labels.values())
    width = max(map(column_count, map(printable, found.labels)), default=0)
    for label, count in found.labels.items():
        share = count / every
        bar = "█" * round(share * BAR)
        lines.append(
            f"{pad_line(printable(label), width)}  {count:>8}  {share:>6.1%}  {bar}".rstrip()
        )
    return "\n".join(printable(line) for line in lines)


@click.command(cls=ExampleCommand)
@click.argument("name", metavar="ID")
@click.option("--to", metavar="ID", help="Show the shortest way to this one instead.")
@click.option("--format", "form", type=click.Choice(["text", *FORMATS]), default="text",
              help="Draw all it came from and led to.")  # fmt: skip
@command
def lineage(session: Session, name: str, to: str | None, form: str) -> None:
    """Show what an evaluation, decision, artifact or stage came from and led to."""
    if session.as_json:
        form = "json"
    with session.open() as pointsman, branch_log(pointsman) as found:
        graph = lineage_graph([] if found is None else found.every())
    names = _resolve_names(graph, name)
    if to is not None:
        ways = [graph.path(each, other) for each in names for other in _resolve_names(graph, to)]
        way = min((each for each in ways if each), key=len, default=())
        session.show("\n".join(way) or "there is no way", {"path": way})
        return
    part = subgraph(graph, names)
    value = part.value() | {"about": [_about(graph, each) for each in names]}
    text = "\n\n".join(_about_text(graph, each) for each in names)
    session.show(text if form == "text" else draw(part, form), value)


def _resolve_names(graph: Graph, name: str) -> list[str]:
    found = matching_nodes(graph, name)
    if not found:
        hint = "name an evaluation, a decision, an artifact or a stage"
        raise NotFound(f"nothing is recorded about `{name}`", hint=hint)
    return found


def _about(graph: Graph, name: str) -> dict[str, object]:
    return {
        "id": name,
        "inputs": graph.inputs(name),
        "outputs": graph.outputs(name),
        "ancestors": graph.ancestors(name),
        "descendants": graph.descendants(name),
        "impact": impact(graph, name),
    }


def _about_text(graph: Graph, name: str) -> str:
    lines = [name]
    lines += [f"  from  {each}" for each in graph.ancestors(name)]
    lines += [f"  to    {each}" for each in graph.descendants(name)]
    return "\n".join(map(printable, lines))


@click.group(cls=CommandGroup)
def cache() -> None:
    """Answers of decisions that are kept for a while."""


@cache.command()
@command
def status(session: Session) -> None:
    """Tell which decisions keep answers, for how long, and how many there are."""
    path = session.home / CACHE_FILE
    counts = {each.decision_id: each for each in cache_counts(path, SystemClock().now())}
    known = decisions_in_force(session).decisions
    names = [
        *(name for name, each in known.items() if each.cache.enabled or name in counts),
        *(name for name in counts if name not in known),
    ]
    found = []
    for name in names:
        kept, decision = counts.get(name), known.get(name)
        is_on = decision is not None and decision.cache.enabled
        ttl = None if decision is None else duration(decision.cache.ttl_ms)
        found.append(
            {
                "decision_id": name,
                "enabled": is_on,
                "ttl": ttl,
                "entries": 0 if kept is None else kept.entries,
                "expired": 0 if kept is None else kept.expired,
            }
        )
    rows = [
        [str(each[key]) for key in ("decision_id", "ttl", "entries", "expired")] for each in found
    ]
    entries = sum(each.entries for each in counts.values())
    summary = f"{count_text(entries, 'answer')} of at most {MOST_ANSWERS}"
    text = "\n".join([table([("DECISION", "TTL", "ANSWERS", "EXPIRED"), *rows]), summary])
    expired = sum(each.expired for each in counts.values())
    value = {"entries": entries, "expired": expired, "most": MOST_ANSWERS, "decisions": found}
    session.show(text if rows else f"no decision keeps answers; {summary}", value)


@cache.command()
@click.argument("decision_id", metavar="ID")
@command
def invalidate(session: Session, decision_id: str) -> None:
    """Forget the answers of one decision, and tell how many there were."""
    removed = _remove_answers(session, lambda kept: kept.invalidate(decision_id))
    value = {"decision_id": decision_id, "removed": removed}
    session.show(f"{count_text(removed, 'answer')} of {decision_id} forgotten", value)


@cache.command()
@command
def clear(session: Session) -> None:
    """Forget all answers, and tell how many there were."""
    removed = _remove_answers(session, lambda kept: kept.clear())
    session.show(f"{count_text(removed, 'answer')} forgotten", {"removed": removed})


def _remove_answers(session: Session, remove: Callable[[DecisionCache], int]) -> int:
    if not is_begun(session):
        return 0
    with session.open() as pointsman:
        return remove(pointsman.branching.cache)
