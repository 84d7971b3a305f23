"""The difference of two policies, ranked by the recorded turns it catches: text, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pointsman.audit.backtest.backtester import RecordedWays, recorded_ways
from pointsman.errors import DocumentError, InputError
from pointsman.kernel.document import printable
from pointsman.operations.rules.cases import facts_text
from pointsman.operations.rules.check import errors
from pointsman.signals.kinds import KINDS
from pointsman.storage.home import BareFolder, Home
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.turns.compiled import compile_policy
from pointsman.turns.policy import TurnPolicy, read_policy, turn_policy
from pointsman.turns.proofs.differences import PolicyDifference, TurnKind, Way, differences

NO_MODEL = "no model"


class RankedDifference(Struct, frozen=True):
    """The kinds of turns that differ, those that were recorded most often first.

    `counts` are recorded turns of each kind; without a ledger there are none.
    """

    found: PolicyDifference
    kinds: tuple[TurnKind, ...]
    counts: tuple[int, ...]
    recorded: RecordedWays | None


def policy_at(path: Path, files: PolicyFiles) -> TurnPolicy:
    """Read a policy: a folder of policy files, or a routing.yaml over the models of `files`."""
    if path.is_dir():
        names = tuple(each.name for each in KINDS)
        on_disk = PolicyFiles(BareFolder(path), names, is_kept=False).on_disk()
        broken = errors(on_disk.invalid)
        if broken:
            raise DocumentError(broken)
        return on_disk.ready.policy
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    known, user_home = files.known_models(files.on_disk().models), str(Path.home())
    tables = files.routing_tables()
    routing = read_policy(text, str(path), known, user_home, tables=tables)
    return turn_policy(routing, known, user_home, tables=tables)


def compare_policies(
    before: TurnPolicy, after: TurnPolicy, home: Home | None = None
) -> RankedDifference:
    """Find every kind of turns that two policies decide differently, and count recorded ones."""
    found = differences(compile_policy(before), compile_policy(after))
    recorded = None if home is None else recorded_ways(home, before, after)
    seen = {} if recorded is None else recorded.differing
    ranked = sorted(
        ((seen.get((each.before, each.after), 0), each) for each in found.kinds),
        key=lambda row: (-row[0], not row[1].is_usual),
    )
    return RankedDifference(
        found, tuple(each for _, each in ranked), tuple(count for count, _ in ranked), recorded
    )


def difference_text(ranked: RankedDifference) -> str:
    """Write a difference for a terminal."""
    lines = [_headline(ranked), *ranked.found.notes]
    for number, (each, count) in enumerate(zip(ranked.kinds, ranked.counts, strict=True), 1):
        lines.append(f"{number}. {_models(each)}{_count_text(ranked, count)}")
        lines += [f"   {line}" for line in _lines(each)]
        if each.example is not None:
            lines.append(f"   example: {facts_text(each.example)}")
    return "\n".join(map(printable, lines))


def difference_markdown(ranked: RankedDifference) -> str:
    """Write a difference as a comment on a change that is reviewed."""
    lines = [f"**{_headline(ranked)}**", ""]
    lines += [f"- {note}" for note in ranked.found.notes]
    for number, (each, count) in enumerate(zip(ranked.kinds, ranked.counts, strict=True), 1):
        lines.append(f"{number}. `{_models(each)}`{_count_text(ranked, count)}")
        lines += [f"   - {line}" for line in _lines(each)]
        if each.example is not None:
            lines += ["", "   ```yaml", f"   {facts_text(each.example)}", "   ```", ""]
    return "\n".join(map(printable, lines)).rstrip()


def difference_value(ranked: RankedDifference) -> dict[str, object]:
    """Return a difference as JSON shows it."""
    return {
        "headline": _headline(ranked),
        "is_complete": ranked.found.is_complete,
        "notes": ranked.found.notes,
        "steps": ranked.found.steps,
        "recorded_turns": None if ranked.recorded is None else ranked.recorded.turns,
        "recorded_differing": None if ranked.recorded is None else _sum(ranked.recorded),
        "recorded_unable": None if ranked.recorded is None else ranked.recorded.unable,
        "kinds": [
            {
                "before_model": each.before_model,
                "after_model": each.after_model,
                "before": _way_text(each.before),
                "after": _way_text(each.after),
                "where": each.where,
                "unless": each.unless,
                "is_exact": each.is_exact,
                "is_usual": each.is_usual,
                "recorded_turns": None if ranked.recorded is None else count,
                "example": None if each.example is None else facts_text(each.example),
            }
            for each, count in zip(ranked.kinds, ranked.counts, strict=True)
        ],
    }


def _sum(recorded: RecordedWays) -> int:
    return sum(recorded.differing.values())


def _headline(ranked: RankedDifference) -> str:
    kinds = ranked.kinds
    if not kinds:
        return "both policies choose the same model for every turn there can be"
    many = "1 kind of turns is" if len(kinds) == 1 else f"{len(kinds)} kinds of turns are"
    more = "" if ranked.found.is_complete else ", and more than are told apart"
    said = f"{many} decided differently{more}"
    recorded = ranked.recorded
    if recorded is None or not recorded.turns:
        return said
    return f"{said}; {_sum(recorded)} of {recorded.turns} recorded turns change their model"


def _models(each: TurnKind) -> str:
    return f"{each.before_model or NO_MODEL} -> {each.after_model or NO_MODEL}"


def _count_text(ranked: RankedDifference, count: int) -> str:
    if ranked.recorded is None or not ranked.recorded.turns:
        return ""
    return f", {count} recorded turn{'' if count == 1 else 's'}"


def _lines(each: TurnKind) -> Iterator[str]:
    yield f"before: {_way_text(each.before)}; after: {_way_text(each.after)}"
    yield f"where {each.where or 'nothing else is asked'}"
    yield from (f"and not {condition}" for condition in each.unless)
    if not each.is_usual:
        yield "only where a model is out or too small, the turn stays here, or a person chose"
    elif not each.is_exact:
        yield "as far as workspaces and the limits of models let it"


def _way_text(way: Way) -> str:
    slot, rule, model = way
    if rule:
        return f"rule {rule}"
    if not slot:
        return NO_MODEL
    return f"{slot} {model}".strip()
