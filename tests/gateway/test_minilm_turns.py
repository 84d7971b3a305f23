"""Turns that are compared by MiniLM: decided, replayed without it, learned from, made anew."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import UNSET
from tests.acceptance.parlour import a_parlour, replays, said
from tests.gateway.conftest import Town
from tests.gateway.house import eventually, facts_of, write_home

from pointsman.cli.main import main
from pointsman.errors import WeightsError
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.operations.machine import SystemClock
from pointsman.providers.embedded import minilm
from pointsman.recording.text_vectors import TextVectors
from pointsman.signals.embedding import text_vector
from pointsman.signals.minilm import MiniLM
from pointsman.storage.home import open_home
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.testing import says
from pointsman.turns.learning.evidence_look import MINILM, STATIC
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of

WISH = "tidy up the garden before winter"
EVIDENCE = {"mode": "apply", "method": "evidence", "min_sample_size": 1, "min_confidence": 0}
ROUTING = {
    "schema_version": 1,
    "global_default": "open:big",
    "tiers": {"fast": "claude:opus", "balanced": "claude:opus", "deep": "claude:opus"},
    "pattern": EVIDENCE,
}
VECTORS = {"patterns": {"vectors": "minilm"}}


@pytest.fixture
def data(minilm_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, from which the weights can be taken away."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(minilm_data / minilm.FILE_NAME, folder)
    monkeypatch.setenv("POINTSMAN_DATA", str(folder))
    return folder


@pytest.fixture
def learned(town: Town, data: Path) -> Town:
    """Claude is good at gardens and the default is not; what they say shares hardly a word."""
    write_home(town.home, routing=ROUTING, pointsman=VECTORS)
    gardens = [f"rake the leaves off the lawn and prune the roses, bed {n}" for n in range(8)]
    sums = [f"multiply the matrix by its inverse, row {n}" for n in range(8)]
    rows = [
        row(vectors(data).of, text, name, is_good=(name == "claude:opus") == (text in gardens))
        for text in [*gardens, *sums]
        for name in ("open:big", "claude:opus")
    ]
    with closing(PatternStore(open_home(town.home).patterns)) as store:
        store.import_rows(rows, SystemClock().now())
    return town


def vectors(data: Path) -> TextVectors:
    assert (data / minilm.FILE_NAME).is_file()
    return TextVectors(lambda: "minilm")


def row(vector_of: Any, text: str, name: str, *, is_good: bool) -> ImportRow:
    return ImportRow(
        f"{name} {text}",
        fingerprint_of(text, Surroundings()),
        vector_of(text),
        name,
        Billionths(10**9 * is_good),
        MicroUsd(1_000),
        3,
    )


def test_a_turn_is_decided_by_what_it_means_and_replays_without_the_weights(
    learned: Town, data: Path, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in: list[str] = []
    tokens = MiniLM.tokens

    def noted(model: MiniLM, text: str) -> bytes:
        read_in.append(f"{threading.current_thread().name}: {text}")
        return tokens(model, text)

    monkeypatch.setattr(MiniLM, "tokens", noted)
    learned.anthropic.then(says("raked"), says("raked again"))
    live = serve(learned.home)
    told = live.chat(WISH)
    assert told.headers["x-pointsman-model"] == "claude:opus"
    assert told.headers["x-pointsman-policy"] == "pattern"
    # Read ahead in a thread of its own, once, though it is asked for while deciding, too.
    assert len(read_in) == 1
    assert read_in[0].startswith("text-vectors")
    assert read_in[0].endswith(WISH)
    live.chat(WISH)
    assert len(read_in) == 1
    facts = facts_of(learned.home, told.headers["x-pointsman-decision"])
    assert facts.pattern_evidence is not UNSET
    live.server.should_exit = True
    (data / minilm.FILE_NAME).unlink()
    done = CliRunner().invoke(main, ["replay", "--all", "--home", str(learned.home)])
    assert done.exit_code == 0, done.output
    assert len(read_in) == 1


def test_without_a_look_up_nothing_is_read(
    learned: Town, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_model: MiniLM, text: str) -> bytes:
        raise AssertionError(text)

    monkeypatch.setattr(MiniLM, "tokens", never)
    for pattern in ({"mode": "off"}, {"mode": "apply", "min_sample_size": 1, "min_confidence": 0}):
        write_home(learned.home, routing={**ROUTING, "pattern": pattern})
        learned.openai.then(says("done"))
        learned.anthropic.then(says("done"))
        with_it = serve(learned.home)
        assert with_it.chat(WISH).status_code == 200
        with_it.server.should_exit = True


def test_feedback_counts_a_turn_with_the_tokens_of_the_maker_in_force(
    learned: Town, data: Path, serve: Any
) -> None:
    learned.anthropic.then(says("raked"))
    live = serve(learned.home)
    told = live.chat(WISH)
    given = {"turn_id": told.headers["x-pointsman-turn"], "thumbs": "up"}
    eventually(lambda: live.outcomes(1))
    answer = live.post("/api/feedback", given, authorization=f"Bearer {live.admin}")
    assert answer.json()["pattern"] == "counted"
    with closing(PatternStore(open_home(learned.home).patterns, maker=MINILM)) as store:
        assert store.count_without_tokens() == 0
    with closing(PatternStore(open_home(learned.home).patterns)) as store:
        assert store.count_without_tokens() == 17


def test_a_gateway_without_the_weights_it_is_told_to_use_does_not_start(
    learned: Town, data: Path, serve: Any
) -> None:
    (data / minilm.FILE_NAME).unlink()
    with pytest.raises(WeightsError, match="the weights of MiniLM are not installed"):
        serve(learned.home)


def test_what_was_recorded_before_is_made_anew_from_the_ledger(
    town: Town, data: Path, serve: Any
) -> None:
    write_home(town.home, routing={**ROUTING, "pattern": {"mode": "off"}})
    town.openai.then(says("done"))
    live = serve(town.home)
    turn = live.chat(WISH).headers["x-pointsman-turn"]
    eventually(lambda: live.outcomes(1))
    write_home(town.home, routing=ROUTING)
    live.post("/admin/reload", {}, authorization=f"Bearer {live.admin}")
    eventually(lambda: live.parts.pointsman.in_force().ready.policy.pattern.mode == "apply")
    said_so = {"turn_id": turn, "thumbs": "up"}
    live.post("/api/feedback", said_so, authorization=f"Bearer {live.admin}")
    place = open_home(town.home).patterns
    with closing(PatternStore(place)) as store:
        store.import_rows(
            [row(text_vector, "imported", "open:big", is_good=True)], SystemClock().now()
        )
        assert store.count_without_tokens() == 0
    write_home(town.home, pointsman=VECTORS)
    words = ["patterns", "revector", "--home", str(town.home)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "1 look made anew, 1 known by letters alone" in done.output
    assert "0 looks made anew" in CliRunner().invoke(main, words).output
    for maker, count in ((MINILM, 1), (STATIC, 1)):
        with closing(PatternStore(place, maker=maker)) as store:
            assert store.count_without_tokens() == count


@pytest.mark.anyio
async def test_a_conversation_reads_ahead_and_learns_with_the_mark(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in: list[str] = []
    tokens = MiniLM.tokens

    def noted(model: MiniLM, text: str) -> bytes:
        read_in.append(threading.current_thread().name)
        return tokens(model, text)

    monkeypatch.setattr(MiniLM, "tokens", noted)
    home = tmp_path / "h"
    async with a_parlour(home, says("one"), says("two"), pointsman=VECTORS) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, WISH)
        await said(conversation, "now something else entirely")
        await conversation.end()
        replays(parlour)
        assert [name.startswith("text-vectors") for name in read_in] == [True, True]
        with closing(PatternStore(parlour.pointsman.home.patterns, maker=MINILM)) as store:
            assert len(store.listed()) == 2
            assert store.count_without_tokens() == 0
    (data / minilm.FILE_NAME).unlink()
    with pytest.raises(WeightsError):
        async with a_parlour(home, pointsman=VECTORS):
            pass
