"""What is looked at when a life is over: the promises, each by what was seen from outside."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from contextlib import closing
from typing import Any

from tests.simulation.script import NAMED
from tests.simulation.world import World

from pointsman.access.book import spent_of
from pointsman.app import Pointsman
from pointsman.calls.call_end import END_FORM, CallEnd
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import DAY, SECOND
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.storage.home import open_home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.spend import SpendReader
from pointsman.turns.facts import FACTS_FORM, TurnFacts

ECHO = re.compile(r"echo-(\d+)-of-(\w+)-([\w.]+)")
DECIDED = "decision.turn"
FALLBACK = "decision.turn.fallback"
MOST_S = 1.5
"""Longer takes no plain turn: providers answer at once, and the slowest sync takes 50 ms."""
KNOWN = {200, 400, 402, 403, 429, 502, 503, 504}
"""How a call may end; 500 is a fault of ours."""


class Record:
    """The ledger of a life, read back."""

    def __init__(self, world: World) -> None:
        with closing(LedgerReader(open_home(world.home).database)) as reader:
            stored = [*reader.of_kind("")]
            self.entries: list[Entry] = [each.entry for each in stored]
            self.facts: dict[str, TurnFacts] = {}
            for each in stored:
                if each.entry.kind in (DECIDED, FALLBACK):
                    body = reader.attachments(each)[0]
                    if body is not None:
                        self.facts[each.entry.id] = FACTS_FORM.decode(body)
        self.by_id = {each.id: each for each in self.entries}
        self.decisions = [each for each in self.entries if each.kind in (DECIDED, FALLBACK)]
        self.outcomes = [each for each in self.entries if each.kind == OUTCOME]

    def end(self, entry: Entry) -> CallEnd | None:
        detail = bytes(OUTCOME_FORM.decode(entry.payload).detail)
        return END_FORM.decode(detail) if b'"model"' in detail else None


def told_turn(turn: Any) -> str:
    """Describe a turn in a line."""
    told = {name: value for name, value in turn.answer.headers.items() if "pointsman" in name}
    where = f"{turn.process} {turn.began_ns}-{turn.ended_ns}"
    follow = "follow" if turn.is_follow else ""
    return f"{follow} {turn.action} {where} {turn.answer.status} {turn.answer.error} {told}"


def check_life(world: World) -> None:
    """Compare what was seen from outside with the ledger, and the ledger with itself."""
    record = Record(world)
    for check in (
        _check_ledger, _check_acknowledged, _check_decisions, _check_answers, _check_named,
        _check_tools, _check_placement, _check_money, _check_outcomes, _check_policy,
        _check_erased, _check_choices, _check_days, _check_time,
    ):  # fmt: skip
        check(world, record)


def _check_ledger(world: World, record: Record) -> None:
    with Pointsman(world.home) as opened:
        report = opened.verify()
        broken = [each.fault for each in report.chains if each.fault is not None]
        if broken or report.others:
            world.find(f"the ledger does not verify: {broken} {report.others}")
        replayed = opened.replay_all()
    is_erased = world.counts.get("erase", 0) > 0
    if replayed.diverged or (replayed.unable and not is_erased):
        world.find(f"{replayed.diverged} replays differ, {replayed.unable} cannot be run")


def _check_acknowledged(world: World, record: Record) -> None:
    lost = [each for each in world.acknowledged if each not in record.by_id]
    if lost:
        world.find(f"{len(lost)} acknowledged decisions are lost")


def _check_decisions(world: World, record: Record) -> None:
    counted = Counter(each.ref for each in record.entries if each.kind == DECIDED)
    twice = [ref for ref, count in counted.items() if count > 1]
    if twice:
        world.find(f"{len(twice)} turns have more than one decision")
    served = Counter(
        turn.answer.headers.get("x-pointsman-turn", "")
        for turn in world.turns
        if not turn.is_follow and turn.answer.status == 200
    )
    del served[""]
    if any(count > 1 for count in served.values()):
        world.find("two calls were served as one turn")
    for turn in world.turns:
        if turn.answer.status == 200 and not turn.answer.error:
            name = turn.answer.headers.get("x-pointsman-turn", "")
            if not counted[name]:
                world.find("an answer names a turn that no decision is of")


def _texts(world: World) -> Any:
    for turn in world.turns:
        if turn.answer.status == 200:
            yield turn, turn.answer.body.decode("utf-8", "replace")


def _is_plain(turn: Any) -> bool:
    return not turn.action.get("faults") and turn.process == turn.ended_in


def _check_answers(world: World, record: Record) -> None:  # noqa: C901 - one look a promise
    for turn, text in _texts(world):
        # A stream is cut into events: its words are joined before they are looked at.
        words = _words(text) if turn.action["stream"] else text
        for marker, provider, name in ECHO.findall(words):
            if int(marker) != turn.marker:
                world.find("an answer belongs to another request")
            served = turn.answer.headers.get("x-pointsman-model")
            if served != f"{provider}:{name}":
                world.find(f"an answer of {provider}:{name} was said to be of {served}")
        is_tool = turn.action.get("tools") and not turn.is_follow
        if turn.answer.is_whole and not is_tool and _is_plain(turn) and "echo-" not in words:
            world.find(f"an answer has lost its words: {words[:200]!r}")
        if is_tool and not ECHO.search(words) and turn.answer.is_whole and _is_plain(turn):
            made = re.findall(r'marker\\*"\s*:\s*(\d+)', words)
            if made and any(int(each) != turn.marker for each in made):
                world.find("a tool call belongs to another request")
    for turn in world.turns:
        status, error = turn.answer.status, turn.answer.error
        if error == "late":
            world.find("a call was not answered in time")
        if not error and status not in KNOWN:
            world.find(f"a call ended with {status}: {turn.answer.body[:200]!r}")
        is_cut = error in ("ConnectionResetError", "IncompleteReadError", "ConnectionRefusedError")
        if (
            is_cut
            and turn.process == turn.ended_in
            and _is_plain(turn)
            and not _restarted(world, turn)
        ):
            world.find(f"a connection broke off without a cause: {error}, {status}")


def _restarted(world: World, turn: Any) -> bool:
    return turn.process in world.stopped or world.is_starting_at(turn.began_ns, turn.ended_ns)


def _words(text: str) -> str:
    words = ""
    for line in text.split("\n"):
        if not line.startswith("data:") or line.strip() == "data: [DONE]":
            continue
        try:
            event = json.loads(line[5:])
        except ValueError:
            continue
        words += _words_of(event)
    return words


def _words_of(event: Any) -> str:
    if event.get("choices"):
        delta = event["choices"][0].get("delta", {})
        made = delta.get("tool_calls") or []
        more = "".join(each.get("function", {}).get("arguments") or "" for each in made)
        return (delta.get("content") or "") + more
    delta = event.get("delta")
    if isinstance(delta, str):
        return delta
    if isinstance(delta, dict):
        return str(delta.get("text") or delta.get("partial_json") or "")
    return ""


def _check_named(world: World, record: Record) -> None:
    if world.settings["fallback_named"]:
        return
    for turn in world.turns:
        named = turn.action.get("model")
        served = turn.answer.headers.get("x-pointsman-model")
        if turn.is_follow or turn.action.get("tools"):
            continue  # it goes on with the turn of its session, which may be another call's
        if named in NAMED and turn.answer.status == 200 and served != named:
            world.find(f"{named} was asked for, and {served} answered: {told_turn(turn)}")
        if named in NAMED and not world.settings["shadow"]:
            others = {
                f"{seen.provider}:{seen.model}"
                for seen in world.seen
                if seen.marker == turn.marker and not seen.is_judge
            } - {named}
            if others:
                world.find(f"{named} was asked for, and {sorted(others)} was called")


def _check_tools(world: World, record: Record) -> None:
    for turn in world.turns:
        if turn.first is None or turn.answer.status != 200:
            continue
        first, then = turn.first.answer.headers, turn.answer.headers
        same = ("x-pointsman-turn", "x-pointsman-model", "x-pointsman-decision")
        is_named = turn.action.get("model") in NAMED
        if any(first.get(name) != then.get(name) for name in same[: 3 if not is_named else 1]):
            others = [
                each
                for each in world.turns
                if each.action.get("session") == turn.action["session"]
                and each is not turn
                and each is not turn.first
                and each.ended_ns >= turn.first.began_ns
                and each.began_ns <= turn.ended_ns
            ]
            if not others and turn.first.process == turn.process:
                world.find("a turn was not gone on with after its tool")


def _check_placement(world: World, record: Record) -> None:
    kept_all = not any(each.get("edit") == "keep-phone" for each in world.script["actions"])
    if not kept_all:
        return
    for seen in world.seen:
        if "email" in seen.items and seen.provider != "house":
            world.find(f"an address of mail reached {seen.provider}")
    tainted: dict[str, int] = {}
    for turn in sorted(world.turns, key=lambda each: each.ended_ns):
        session = turn.action.get("session")
        brings = turn.action.get("item") == "email" or (
            turn.is_follow and turn.action.get("result_item")
        )
        if session and brings and turn.answer.status == 200 and turn.answer.is_whole:
            tainted.setdefault(session, turn.ended_ns)
    calls = {each.action["n"]: each for each in world.turns if not each.is_follow}
    for seen in world.seen:
        turn = calls.get(seen.marker)
        since = tainted.get((turn and turn.action.get("session")) or "")
        if turn and since is not None and turn.began_ns > since and seen.provider != "house":
            world.find(f"a tainted session reached {seen.provider}")


def _check_money(world: World, record: Record) -> None:
    limit = int(float(world.settings["limit_usd"]) * 1_000_000)
    days: Counter[int] = Counter()
    models: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seen: set[str] = set()
    for entry in record.outcomes:
        spent = spent_of(entry)
        if spent is None:
            continue
        if entry.id in seen:
            world.find("an outcome is there twice")
        seen.add(entry.id)
        days[spent.at // DAY] += spent.cost_microusd or 0
        models[spent.model].update(
            input=spent.input_tokens, output=spent.output_tokens, cost=spent.cost_microusd or 0
        )
    for cost in days.values():
        if cost > limit:
            world.find(f"a cap of {limit} was passed: {cost} on a day")
    total = sum(days.values())
    with closing(SpendReader(open_home(world.home).place("spend"))) as reader:
        stored = sum(each.amounts[-1] for each in reader.totals("all"))
    # Where the disk takes nothing, the end of a call may be missing in the ledger; its cost is not.
    is_known_lack = stored > total and world.had("full disk", "failing sync")
    if stored != total and not is_known_lack:
        world.find(f"the ledger says {total} was spent, the store {stored}")
    if world.budget_cost is not None:
        today, left = world.budget_cost
        if today not in days.values() and today != 0 and not is_known_lack:
            world.find(f"budgets say {today} was spent today, the ledger {dict(days)}")
        if left != limit - today:
            world.find(f"money is set aside for ever: {limit - today - left}")
    _compare_metrics(world, record)


def _compare_metrics(world: World, record: Record) -> None:
    if world.metrics_text is None:
        return
    before = world.entries_before
    told: dict[str, dict[str, int]] = {}
    pattern = re.compile(
        r'pointsman_(tokens|spend_microusd)_total\{model="([^"]+)"(?:,type="(\w+)")?\} (\d+)'
    )
    for kind, model, which, number in pattern.findall(world.metrics_text):
        name = "cost" if kind == "spend_microusd" else which
        told.setdefault(model, {})[name] = int(number)
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in record.outcomes:
        spent = spent_of(entry)
        if spent is not None and entry.id not in before:
            sums[spent.model].update(
                input=spent.input_tokens, output=spent.output_tokens, cost=spent.cost_microusd or 0
            )
    for model in {*sums, *told}:
        here = {name: sums[model][name] for name in ("input", "output", "cost")}
        there = {name: told.get(model, {}).get(name, 0) for name in here}
        is_known_lack = world.had("full disk", "failing sync") and all(
            there[name] >= here[name] for name in here
        )
        if here != there and not is_known_lack:
            world.find(f"of {model} the ledger says {here}, the metrics {there}")


def _check_outcomes(world: World, record: Record) -> None:  # noqa: C901, PLR0912 - one look a promise
    """Each call has one end, with what its provider said it used."""
    ends: defaultdict[str, list[CallEnd]] = defaultdict(list)
    for entry in record.outcomes:
        end = record.end(entry)
        if end is not None:
            ends[entry.ref].append(end)
    is_steady = not world.killed and not world.had("full disk", "failing sync")
    if is_steady:
        attempts = sum(end.attempts for made in ends.values() for end in made)
        if attempts != len(world.seen) + world.refused_connections():
            told = (attempts, len(world.seen))
            if not world.had("cut network", "restart", "cancelled"):
                world.find(f"the ledger counts {told[0]} attempts, the providers {told[1]}")
    for turn in world.turns:
        if turn.answer.status != 200 or not turn.answer.is_whole or not _is_plain(turn):
            continue
        decision = turn.answer.headers.get("x-pointsman-decision", "")
        done = [each for each in ends.get(decision, ()) if each.stop_reason]
        if not done:
            if is_steady and turn.process not in world.killed:
                world.find(f"a served call has no outcome: {told_turn(turn)}")
            continue
        used = _usage_of(world, turn)
        if turn.first is None and not turn.action.get("tools") and used is not None:
            served = turn.answer.headers.get("x-pointsman-model")
            own = [each for each in done if each.model == served]
            spent = min(own or done, key=lambda each: each.number).spent
            if spent is None:
                world.find("a served call was charged nothing")
            elif (spent.input_tokens, spent.output_tokens) != used:
                world.find(
                    f"{used} was used, and {spent.input_tokens, spent.output_tokens} charged"
                )
            if len({each.number for each in done}) != len(done):
                world.find(f"a call was charged twice: {done}")


def _usage_of(world: World, turn: Any) -> tuple[int, int] | None:
    for seen in world.seen:
        if seen.marker == turn.marker and not seen.is_judge:
            used = world.providers[seen.provider].usage(seen)
            return used.input_tokens, used.output_tokens
    return None


def _check_policy(world: World, record: Record) -> None:
    """What was decided after an edit went by it: one content has one id."""
    ids: dict[str, str] = {}
    contents: dict[str, str] = {}
    for turn in world.turns:
        entry = record.by_id.get(turn.answer.headers.get("x-pointsman-decision", ""))
        if entry is None or turn.is_follow or turn.content_before != turn.content_after:
            continue
        named = json.loads(entry.payload)["decision"]["policy_id"]
        content = turn.content_before.partition(":")[2]
        if not content:
            continue
        if (
            ids.setdefault(content, named) != named
            or contents.setdefault(named, content) != content
        ):
            told = told_turn(turn)
            world.find(f"a turn was decided under another policy than the one in force: {told}")


def _check_erased(world: World, record: Record) -> None:
    for session, at_ns in world.erased:
        for turn in world.turns:
            is_own = turn.action.get("session") == session and not turn.is_follow
            if not is_own or turn.ended_ns >= at_ns or turn.answer.status != 200:
                continue
            text = f"marker-{turn.marker}-end".encode()
            for path in sorted(world.home.glob("content.db*")):
                if path.is_file() and text in path.read_bytes():
                    world.find(f"an erased text stands in {path.name}: {at_ns} {told_turn(turn)}")


def _check_choices(world: World, record: Record) -> None:
    """No choice goes against its own facts."""
    tried: defaultdict[str, list[str]] = defaultdict(list)
    for entry in record.entries:
        if entry.kind not in (DECIDED, FALLBACK) or entry.id not in record.facts:
            continue
        facts = record.facts[entry.id]
        payload = json.loads(entry.payload)
        chosen = payload["decision"]["outcome"].get("chosen_model")
        if not chosen:
            continue
        if chosen in tried[entry.ref]:
            world.find("a model that failed was tried again in the same turn")
        tried[entry.ref].append(chosen)
        if chosen in (facts.excluded_models or ()):
            world.find("a model was chosen that had just failed")
        named = facts.named_model
        if isinstance(named, str) and named and chosen != named:
            world.find(f"the decision swapped {named} for {chosen}")
        state = facts.availability.get(chosen.partition(":")[0], "")
        if state == "unavailable":
            world.find(f"{chosen} was chosen though its provider is out")


def _check_days(world: World, record: Record) -> None:
    """A clock that is set back opens no earlier day for spending, while a process lives."""
    newest, life = 0, 0
    for number, entry in enumerate(record.entries):
        while life < len(world.boundaries) and number >= world.boundaries[life]:
            newest, life = 0, life + 1
        spent = spent_of(entry)
        if spent is not None:
            if newest - spent.at > 3_600 * SECOND:
                world.find("spending was put on an earlier day when the clock was set back")
            newest = max(newest, spent.at)


def _check_time(world: World, record: Record) -> None:
    """A turn that nothing troubles is not left waiting."""
    troubles = ("outage", "cut network", "full disk", "failing sync", "kill", "power", "restart")
    if world.had(*troubles):
        return
    for turn in world.turns:
        took_s = (turn.ended_ns - turn.began_ns) / 1e9
        if not turn.action.get("faults") and took_s > MOST_S and turn.answer.status == 200:
            world.find(f"a plain turn took {took_s:.1f} s: {told_turn(turn)}")


def ledger_digest(world: World) -> str:
    """Return a digest of all entries of the ledger."""
    digest = hashlib.sha256()
    with closing(LedgerReader(open_home(world.home).database)) as reader:
        for each in reader.of_kind(""):
            digest.update(repr(each.entry).encode())
    return digest.hexdigest()
