"""An owner with all keys signs another history, in a hundred ways, by the product's own writer.

The rewritten home has the same identity, valid hashes, valid checkpoints and valid stamps.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from small_ledger import START, draft, fill

from pointsman.audit.verify import LedgerReport, verify_ledger
from pointsman.audit.witnessed import terms_of
from pointsman.gateway.server import bind_socket
from pointsman.gateway.witness_server import open_witness_server, witness_limits
from pointsman.kernel.checkpoint import log_key
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.storage.home import Home, open_home
from pointsman.storage.policies.witness_settings import Witness, WitnessSettings
from pointsman.testing.builders import CountedIds, FrozenClock
from pointsman.witnessing.rounds import RoundReport, Witnessing
from pointsman.witnessing.submission import ask_witnesses
from pointsman.witnessing.witness import make_witness

History = dict[str, list[Draft]]
NOW = Instant(START + 3_600_000_000)
OPS = "ops"


@contextmanager
def running_witness(folder: Path, name: str, *logs: str) -> Iterator[Witness]:
    """Serve a witness on this machine."""
    key = make_witness(folder, name)
    know_logs(folder, name, *logs)
    limits = witness_limits("127.0.0.1", 0)
    with open_witness_server(folder, limits) as (server, _), bind_socket(limits) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        try:
            yield Witness(f"http://127.0.0.1:{listening.getsockname()[1]}", key)
        finally:
            server.should_exit = True
            thread.join(30)


def know_logs(folder: Path, name: str, *logs: str) -> None:
    """Write which logs a witness knows."""
    lines = [f"name: {name}", "logs:", *(f'  - "{each}"' for each in logs)] if logs else []
    if lines:
        (folder / "witness.yaml").write_text("\n".join(lines) + "\n")


def home_key(home: Home) -> str:
    """The line that an owner sends to the operator of a witness."""
    return log_key(home.identity.ledger, home.keys[-1]).text()


def honest_history() -> History:
    """Three chains, some entries with attachments."""
    carrying = {7: (b'{"facts":7}',), 200: (b'{"facts":200}', b"more")}
    return {
        "alpha": [draft(number) for number in range(9)],
        "cli": [draft(number, carrying.get(number, ())) for number in range(290)],
        "serve": [draft(number, carrying.get(number, ())) for number in range(40)],
    }


def build(path: Path, keys: Path | None, history: History) -> Home:
    """Write a history into a new home, with the identity and the keys of another."""
    if keys is not None:
        path.mkdir(mode=0o700)
        shutil.copy2(keys / "identity.json", path / "identity.json")
        shutil.copytree(keys / "keys", path / "keys")
    home = open_home(path)
    for name, drafts in history.items():
        fill(home, name, drafts)
    return home


def witness_round(home: Home, settings: WitnessSettings) -> tuple[RoundReport, list[Draft]]:
    """Submit everything once; return what is to be recorded of it."""
    recorded: list[Draft] = []
    witnessing = Witnessing(home, settings, recorded.append, (FrozenClock(NOW), CountedIds("w")))
    return witnessing.run_round(), recorded


class House(Struct, frozen=True):
    """An honest home that was witnessed, and where its parts are."""

    home: Home
    history: History
    """Everything on record, the cosignatures in a chain of their own."""
    settings: WitnessSettings


@contextmanager
def witnessed_house(path: Path) -> Iterator[House]:
    """Build an honest home, and have two witnesses cosign all of it."""
    history = honest_history()
    home = build(path / "home", None, history)
    key = home_key(home)
    with (
        running_witness(path / "w1", "w1.example", key) as first,
        running_witness(path / "w2", "w2.example", key) as second,
    ):
        settings = WitnessSettings(of=(first, second), quorum=2)
        report, recorded = witness_round(home, settings)
        assert not report.failures
        fill(home, OPS, recorded)
        witness_round(home, settings)
        yield House(home, {**history, OPS: recorded}, settings)


Way = tuple[str, Callable[[History], History]]


def _changed(chain: str, at: int, **fields: object) -> Callable[[History], History]:
    def rewrite(history: History) -> History:
        drafts = [*history[chain]]
        drafts[at] = replace(drafts[at], **fields)
        return {**history, chain: drafts}

    return rewrite


def _removed(chain: str, at: int) -> Callable[[History], History]:
    return lambda history: {**history, chain: history[chain][:at] + history[chain][at + 1 :]}


def _inserted(chain: str, at: int) -> Callable[[History], History]:
    def rewrite(history: History) -> History:
        drafts = history[chain]
        added = replace(drafts[at], id="d-forged")
        return {**history, chain: [*drafts[:at], added, *drafts[at:]]}

    return rewrite


def _swapped(chain: str, at: int) -> Callable[[History], History]:
    def rewrite(history: History) -> History:
        drafts = [*history[chain]]
        one, two = drafts[at], drafts[at + 1]
        drafts[at], drafts[at + 1] = replace(two, at=one.at), replace(one, at=two.at)
        return {**history, chain: drafts}

    return rewrite


def _cut(chain: str, size: int, regrown: int = 0) -> Callable[[History], History]:
    def rewrite(history: History) -> History:
        more = [replace(draft(5000 + n), at=Instant(START + 5000 + n)) for n in range(regrown)]
        return {**history, chain: history[chain][:size] + more}

    return rewrite


def _without(*chains: str) -> Callable[[History], History]:
    return lambda history: {name: each for name, each in history.items() if name not in chains}


def hundred_ways(seed: int = 7) -> list[Way]:
    """Return a hundred rewritings, each with its name."""
    draw = random.Random(seed)
    sizes = {name: len(each) for name, each in honest_history().items()}

    def place() -> tuple[str, int]:
        chain = draw.choice([*sizes])
        return chain, draw.randrange(sizes[chain] - 1)

    ways: list[Way] = []

    def add(name: str, times: int, make: Callable[[], Callable[[History], History]]) -> None:
        ways.extend((name, make()) for _ in range(times))

    add("payload changed", 18, lambda: _changed(*place(), payload=b'{"n":-1}'))
    add("kind changed", 8, lambda: _changed(*place(), kind="outcome"))
    add("id changed", 8, lambda: _changed(*place(), id="d-other"))
    add("ref changed", 8, lambda: _changed(*place(), ref="t-other"))
    add("time changed", 8, lambda: _later(*place()))
    add("attachment added", 6, lambda: _changed(*place(), attachments=(b"{}",)))
    add("entry removed", 12, lambda: _removed(*place()))
    add("entry inserted", 12, lambda: _inserted(*place()))
    add("entries swapped", 6, lambda: _swapped(*place()))
    add("chain cut", 6, lambda: _cut(*place()))
    add("chain cut and grown anew", 6, lambda: _cut(*place(), regrown=400))
    ways += [("chain removed", _without(name)) for name in (*sizes, OPS)[:2]]
    return ways


def _later(chain: str, place: int) -> Callable[[History], History]:
    def rewrite(history: History) -> History:
        drafts = [*history[chain]]
        # As late as the next entry: a chain's time may stand still, and no other entry moves.
        drafts[place] = replace(drafts[place], at=Instant(drafts[place].at + 1))
        return {**history, chain: drafts}

    return rewrite


class Verdict(Struct, frozen=True):
    """What became of one rewriting."""

    way: str
    found: tuple[str, ...]
    """The faults of the rewritten chains that verification reports with the word of witnesses."""
    is_refused: bool
    """Whether no witness cosigned the rewritten chain."""
    is_silent_without: bool
    """Whether, without witnesses, nothing at all speaks against the owner."""


def try_way(house: House, path: Path, way: Way, *, keeps_cosignatures: bool) -> Verdict:
    """Rewrite the home in one way, and see who notices."""
    name, rewrite = way
    history = rewrite(house.history)
    changed = {each for each in house.history if history.get(each) != house.history[each]}
    if not keeps_cosignatures:
        history.pop(OPS, None)
    forged = build(path, house.home.path, history)
    alone = verify_ledger(forged)
    notes = ask_witnesses(house.settings, house.home.identity.ledger).notes
    report = verify_ledger(forged, terms=terms_of(house.settings, notes))
    cosigned = witness_round(forged, house.settings)[0].cosigned
    return Verdict(
        name,
        tuple(sorted({each.code.value for each in report.faults if each.chain in changed})),
        not changed & {*cosigned},
        alone.is_intact and not _is_proven_against_owner(alone),
    )


def _is_proven_against_owner(report: LedgerReport) -> bool:
    return any(
        part.against == "operator_with_key" for each in report.proofs for part in each.ranges
    )
