"""Rounds of witnessing: what is submitted, what is recorded of it, and when nothing is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tamper"))

from rewriting import History, build, home_key, know_logs, running_witness
from small_ledger import START, draft, fill

from pointsman.audit.verify import verify_ledger
from pointsman.audit.witness_entries import lost_witnesses
from pointsman.audit.witnessed import terms_of
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.storage.home import Home
from pointsman.storage.policies.witness_settings import Witness, WitnessSettings
from pointsman.testing.builders import CountedIds, FrozenClock
from pointsman.witnessing.rounds import Witnessing

HISTORY: History = {"cli": [draft(number) for number in range(20)]}
AT = START + 10_000_000


IDS = CountedIds("n")


class Recorded:
    """A home whose recorder is a chain of its own, closed after each entry."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.drafts: list[Draft] = []

    def __call__(self, made: Draft) -> None:
        self.drafts.append(made)
        fill(self.home, "ops", [made])

    def kinds(self) -> list[str]:
        return [each.kind.removeprefix("event.witness.") for each in self.drafts]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return build(tmp_path / "home", None, HISTORY)


@pytest.fixture
def pair(tmp_path: Path, home: Home) -> Iterator[list[Witness]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_witness(tmp_path / name, name, home_key(home)))
            for name in ("w1.example", "w2.example")
        ]


def witnessing(
    home: Home, recorded: Recorded, at_s: int, *of: Witness, **more: int
) -> tuple[Witnessing, FrozenClock]:
    clock = FrozenClock(Instant(AT + at_s * 1_000_000))
    settings = WitnessSettings(of=of, **more)
    return Witnessing(home, settings, recorded, (clock, IDS)), clock


def proven(home: Home, *of: Witness, quorum: int = 1) -> dict[str, int]:
    report = verify_ledger(home, terms=terms_of(WitnessSettings(of=of, quorum=quorum)))
    assert report.is_intact
    return {
        each.chain: sum(p.end - p.first for p in each.ranges if p.against == "operator_with_key")
        for each in report.proofs
    }


def test_a_round_has_every_chain_cosigned_and_records_it_once(
    home: Home, pair: list[Witness]
) -> None:
    recorded = Recorded(home)
    submits, _ = witnessing(home, recorded, 0, *pair, quorum=2)
    report = submits.run_round()
    assert report.cosigned == {"cli": ("w1.example", "w2.example")}
    assert recorded.kinds() == ["cosigned"]
    assert submits.witnessed_size("cli") == 21
    assert proven(home, *pair, quorum=2) == {"cli": 21, "ops": 0}


def test_entries_of_witnesses_alone_ask_for_no_cosignature(home: Home, pair: list[Witness]) -> None:
    """Else each cosignature would be a reason for the next."""
    recorded = Recorded(home)
    submits, _ = witnessing(home, recorded, 0, *pair)
    counts = []
    for _ in range(5):
        submits.run_round()
        counts.append(len(recorded.drafts))
    # The second round has the chain of cosignatures itself, which is new, cosigned once.
    assert counts == [1, 2, 2, 2, 2]
    fill(home, "cli", [draft(100)])
    submits.run_round()
    assert recorded.kinds() == ["cosigned"] * 3
    again, _ = witnessing(home, recorded, 0, *pair)
    again.run_round()
    assert len(recorded.drafts) == 3, "a process that starts knows what was cosigned before"


def test_a_process_that_starts_goes_on_from_what_the_witness_saw(
    home: Home, pair: list[Witness]
) -> None:
    recorded = Recorded(home)
    witnessing(home, recorded, 0, *pair)[0].run_round()
    fill(home, "cli", [draft(number) for number in range(100, 700)])
    report = witnessing(home, recorded, 0, *pair)[0].run_round()
    assert not report.failures
    assert report.cosigned["cli"] == ("w1.example", "w2.example")


def test_a_lost_witness_is_recorded_once_and_again_when_it_is_back(
    tmp_path: Path, home: Home, pair: list[Witness]
) -> None:
    recorded = Recorded(home)
    gone = Witness("http://127.0.0.1:9", pair[1].key)
    submits, clock = witnessing(home, recorded, 0, pair[0], gone, gap_s=60, timeout_s=2)
    report = submits.run_round()
    assert [*report.failures] == ["w2.example"]
    assert recorded.kinds() == ["cosigned"], "one failure is no gap"
    clock.advance(seconds=61)
    submits.run_round()
    submits.run_round()
    assert recorded.kinds().count("lost") == 1
    assert recorded.kinds().count("cosigned") == 2, "the one that answers is not asked again"
    with_reader = home.reader()
    assert lost_witnesses(with_reader)["w2.example"].code == "unreachable"
    with_reader.close()
    # Another process of the same home knows of the loss, and records the return.
    again, _ = witnessing(home, recorded, 200, *pair, gap_s=60)
    again.run_round()
    assert recorded.kinds().count("back") == 1
    assert proven(home, *pair, quorum=2)["cli"] == 21


def test_a_witness_that_does_not_know_the_ledger_is_told_so(
    tmp_path: Path, home: Home, pair: list[Witness]
) -> None:
    with running_witness(tmp_path / "w3", "w3.example") as third:
        submits, _ = witnessing(home, Recorded(home), 0, third)
        report = submits.run_round()
    assert report.failures == {"w3.example": "this witness does not know the log"}
    assert submits.witnesses["w3.example"].code == "unknown_log"


def test_a_refusal_is_recorded_at_once(tmp_path: Path, home: Home, pair: list[Witness]) -> None:
    witnessing(home, Recorded(home), 0, *pair)[0].run_round()
    forged = build(tmp_path / "forged", home.path, {"cli": [draft(n) for n in range(1, 22)]})
    recorded = Recorded(forged)
    report = witnessing(forged, recorded, 0, *pair)[0].run_round()
    assert "cli" not in report.cosigned
    assert recorded.kinds() == ["refused", "refused"]
    trouble = msgspec.json.decode(recorded.drafts[0].payload)
    assert trouble["code"] == "refused"


def test_a_witness_that_lost_its_memory_is_taught_again(tmp_path: Path, home: Home) -> None:
    recorded = Recorded(home)
    with running_witness(tmp_path / "w", "w.example", home_key(home)) as first:
        submits, _ = witnessing(home, recorded, 0, first)
        submits.run_round()
    (tmp_path / "w" / "seen.db").unlink()
    for rest in (tmp_path / "w").glob("seen.db-*"):
        rest.unlink()
    fill(home, "cli", [draft(100)])
    with running_witness(tmp_path / "w", "w.example", home_key(home)) as second:
        again, _ = witnessing(home, recorded, 0, second)
        again._clients[0]._seen = submits._clients[0]._seen  # it remembers what it taught before
        report = again.run_round()
    assert report.cosigned["cli"] == ("w.example",)
    assert not report.failures


def test_an_answer_under_another_key_counts_for_nothing(
    tmp_path: Path, home: Home, pair: list[Witness]
) -> None:
    with running_witness(tmp_path / "w3", "w1.example", home_key(home)) as impostor:
        taken = Witness(impostor.url, pair[0].key)
        report = witnessing(home, Recorded(home), 0, taken)[0].run_round()
    assert report.cosigned == {}
    assert report.failures == {"w1.example": "its answer is not signed by its key"}


def test_the_operator_of_a_witness_adds_a_log_by_one_line(tmp_path: Path, home: Home) -> None:
    with running_witness(tmp_path / "w", "w.example") as early:
        assert witnessing(home, Recorded(home), 0, early)[0].run_round().failures
    know_logs(tmp_path / "w", "w.example", home_key(home))
    with running_witness(tmp_path / "w", "w.example", home_key(home)) as later:
        assert witnessing(home, Recorded(home), 0, later)[0].run_round().cosigned
