"""The demo's day, told step by step: each step acts on the running gateway and shows the proof.

Nothing is canned but the models' words: every number printed was measured in this run.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import msgspec
from msgspec import Struct

from pointsman import receipt_verifier
from pointsman.audit.replay import replay_all
from pointsman.audit.turn_story import read_story
from pointsman.audit.verify import verify_ledger
from pointsman.demo.town import HARD, Town
from pointsman.storage.home import open_home
from pointsman.turns.explain import to_screen

SEED: Final = 20_261
EASY: Final = ("rename this variable", "format this list", "fix the typo", "translate this label")
JUDGED: Final = 48
"""So many judged turns teach the store which tasks the small model can do."""

SOON_S: Final = 10

CARD: Final = "4111 1111 1111 1111"
"""The card number of the payment networks' own documentation: no one's."""


class DayStep(Struct, frozen=True):
    """One step of the day: its title, the lines to show, and the command that shows it again."""

    title: str
    lines: tuple[str, ...]
    command: str = ""


def tell_day(town: Town) -> Iterator[DayStep]:
    """Live through the day; each step is yielded when it has happened."""
    for step in (
        _morning,
        _rule,
        _outage,
        _leak_attempt,
        _spent_budget,
        _learning,
        _replay,
        _tampering,
        _receipt,
    ):
        yield step(town)


def _morning(town: Town) -> DayStep:
    answer = town.chat("Summarise the release notes for the team")
    return DayStep(
        "A turn is decided, recorded, then answered",
        (f"model: auto was served by {answer.model}", "", *_why(town, answer.turn)),
        f"pointsman why {answer.turn}",
    )


def _rule(town: Town) -> DayStep:
    answer = town.chat("Write a commit message for this diff")
    rule = answer.headers.get("x-pointsman-rule", "")
    return DayStep(
        "A rule sends small work to a small model",
        (f"{answer.model}, by the rule `{rule.replace('%20', ' ')}`",),
        "pointsman rules show",
    )


def _outage(town: Town) -> DayStep:
    north = town.providers["north"]
    north.is_out = True
    answers = [town.chat(f"Review change {number}") for number in range(4)]
    north.is_out = False
    served = Counter(each.model for each in answers)
    fallen = next(each for each in answers if each.headers.get("x-pointsman-fallback-from"))
    shown = ", ".join(f"{model} took {count}" for model, count in served.items())
    return DayStep(
        "A provider is out: another model takes over, and the answer says so",
        (
            f"north answered 503; {shown}; no caller got an error",
            f"x-pointsman-fallback-from: {fallen.headers['x-pointsman-fallback-from']}",
            *_calls(town, fallen.turn),
        ),
        "pointsman providers",
    )


def _leak_attempt(town: Town) -> DayStep:
    before = _cloud_requests(town)
    answer = town.chat(f"Book the train, my card is {CARD}", session="travel")
    again = town.chat("And what did it cost?", session="travel")
    left = _cloud_requests(town) - before
    asked = town.chat(f"Charge {CARD}", model="north:large", session="till")
    return DayStep(
        "A card number stays on this machine, and so does its conversation",
        (
            f"auto: {answer.model}; the next turn of that conversation: {again.model}",
            f"requests that reached a provider in the cloud meanwhile: {left}",
            f"a caller who names north:large for it: {asked.status}, {_message(asked.body)}",
        ),
        "pointsman audit egress",
    )


def _spent_budget(town: Town) -> DayStep:
    made = town.act(
        "/api/keys",
        {"name": "intern", "scopes": ["models"], "budgets": [{"limit_usd": 0.05, "per": "day"}]},
    )
    secret = str(made.body["key"])
    served = 0
    answer = town.chat("Explain this stack trace", secret, "north:large")
    while answer.status == 200 and served < 50:
        served += 1
        answer = town.chat("Explain this stack trace", secret, "north:large")
    return DayStep(
        "A budget ends where it ends",
        (
            f"a key with $0.05 a day: {served} answers, then {answer.status}",
            f"{_message(answer.body)}",
        ),
        "pointsman cost",
    )


def _learning(town: Town) -> DayStep:
    draw = random.Random(SEED)  # noqa: S311 - the same day every time
    key = _team_key(town)
    for number in range(JUDGED):
        is_hard = number % 2 == 0
        text = _task(draw, number, is_hard=is_hard)
        model = "north:small" if number % 4 < 2 else "north:large"
        answer = town.chat(text, key, model)
        good = not (is_hard and model == "north:small")
        town.act("/api/feedback", {"turn_id": answer.turn, "score": 1 if good else 0})
    _wait_for_the_store(town, key)
    tried = [
        (is_hard, town.chat(_task(draw, 100 + number, is_hard=is_hard), key).model)
        for number in range(6)
        for is_hard in (True, False)
    ]
    lines = [
        f"{'hard' if is_hard else 'easy'} tasks: "
        + ", ".join(f"{count} by {model}" for model, count in sorted(found.items()))
        for is_hard in (True, False)
        for found in [Counter(model for kind, model in tried if kind is is_hard)]
    ]
    return DayStep(
        f"After {JUDGED} judged turns the small model gets what it can do",
        (*lines, "no rule says so: similar turns do, and the decision holds what it went by"),
        "pointsman patterns report",
    )


def _wait_for_the_store(town: Town, key: str) -> None:
    """Let the gateway notice the new verdicts: it looks for a new store once a second."""
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        answer = town.chat("Please fix the typo, case 99", key)
        if answer.headers.get("x-pointsman-policy") == "pattern":
            break
        time.sleep(0.05)
    # The last verdicts are read beside the turns, in some milliseconds.
    time.sleep(0.5)


def _replay(town: Town) -> DayStep:
    report = replay_all(open_home(town.home))
    return DayStep(
        "Every decision of the day is made again from its record",
        (f"{report.identical} of {report.total} decisions came out identical, byte for byte",),
        "pointsman replay --all",
    )


def _tampering(town: Town) -> DayStep:
    honest = verify_ledger(open_home(town.home))
    copied = town.home.with_name(f"{town.home.name}-tampered")
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(town.home, copied, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
    with closing(apsw.Connection(str(copied / "ledger.db"))) as ledger:
        ledger.execute("UPDATE entries SET at_us = at_us + 1 WHERE seq = 3")
    found = verify_ledger(open_home(copied)).fault
    shutil.rmtree(copied)
    whole = "intact" if honest.is_intact else "NOT intact"
    told = "nothing" if found is None else f"{found.code}: {found.message}"
    return DayStep(
        "One byte of the record is changed behind its back, in a copy",
        (f"the ledger: {honest.entries} entries, {whole}", f"the copy: {told}"),
        "pointsman verify",
    )


def _receipt(town: Town) -> DayStep:
    """Verify the first turn's receipt as its holder does: by the program of one file."""
    turns = msgspec.json.decode(town.read("/api/turns?limit=1000"))["turns"]
    turn, deadline = turns[-1]["turn_id"], time.monotonic() + SOON_S
    done = _run_verifier(town, turn)
    while done.returncode != 0 and time.monotonic() < deadline:
        # No checkpoint covers it yet: one is signed every few seconds.
        time.sleep(0.5)
        done = _run_verifier(town, turn)
    said = [line for line in done.stdout.splitlines() if "again" in line]
    verdict = "accepted" if done.returncode == 0 else f"REFUSED: {done.stdout}{done.stderr}"
    return DayStep(
        "A receipt is verified by a program that shares nothing with the gateway",
        (f"the receipt of the first turn: {verdict}", *said),
        f"pointsman receipt {turn}",
    )


def _run_verifier(town: Town, turn: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "receipt.json"
        file.write_bytes(town.read(f"/api/turns/{turn}/receipt"))
        # Isolated: it sees neither this package nor the home.
        command = [sys.executable, "-I", receipt_verifier.__file__, str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own file


def _team_key(town: Town) -> str:
    made = town.act("/api/keys", {"name": "team", "scopes": ["models"]})
    return str(made.body["key"])


def _task(draw: random.Random, number: int, *, is_hard: bool) -> str:
    words = draw.choice(HARD if is_hard else EASY)
    return f"Work out the {words} of case {number}" if is_hard else f"Please {words}, case {number}"


def _why(town: Town, turn: str) -> list[str]:
    """Return a turn's screen, once the end of its call is on record: just after its answer."""
    home, deadline = open_home(town.home), time.monotonic() + SOON_S
    while True:
        story = read_story(home, turn)
        if story.served_model or time.monotonic() > deadline:
            return to_screen(story).splitlines()
        time.sleep(0.01)


def _calls(town: Town, turn: str) -> list[str]:
    """Return the lines of a turn's screen that tell of its calls."""
    lines = _why(town, turn)
    first = next((at for at, line in enumerate(lines) if line.startswith("Calls")), len(lines))
    return lines[first : first + 4]


def _cloud_requests(town: Town) -> int:
    return sum(len(town.providers[name].upstream.requests) for name in ("north", "south"))


def _message(body: object) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else ""
