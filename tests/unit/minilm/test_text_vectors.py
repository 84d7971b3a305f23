"""Vectors of texts as the settings say: off the event loop, one at a time, kept for a while."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from pointsman.cli.main import main
from pointsman.errors import DocumentError, WeightsError
from pointsman.operations.doctor import examine_home
from pointsman.recording import text_vectors
from pointsman.recording.text_vectors import TextVectors
from pointsman.signals.embedding import hashed_letters, text_vector
from pointsman.signals.minilm import MiniLM
from pointsman.storage.policies.settings import read_settings
from pointsman.testing import a_home
from pointsman.turns.learning.evidence_look import MINILM, STATIC, TOKENS
from pointsman.turns.learning.fingerprint import DIMENSIONS


class Watched(MiniLM):
    """The model; notes what it reads, in which thread, and whether it reads two texts at once."""

    def __init__(self, model: MiniLM) -> None:
        super().__init__(model._encoder)
        self.read: list[str] = []
        self.threads: set[str] = set()
        self.most_at_once = self._at_once = 0

    def tokens(self, text: str) -> bytes:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.read.append(text)
        self.threads.add(threading.current_thread().name)
        try:
            return super().tokens(text)
        finally:
            self._at_once -= 1


@pytest.fixture
def watched(minilm_model: MiniLM) -> Watched:
    return Watched(minilm_model)


@pytest.fixture
def vectors(watched: Watched) -> TextVectors:
    found = TextVectors(lambda: "minilm")
    found.__dict__["_model"] = watched
    return found


def test_static_vectors_are_made_as_ever_with_nothing_between() -> None:
    found = TextVectors(lambda: "static")
    found.begin()
    assert found.of is text_vector
    assert (found.is_slow, found.maker) == (False, STATIC)


def test_a_vector_is_letters_and_marked_tokens(vectors: TextVectors, watched: Watched) -> None:
    found = vectors.of("hello there")
    assert found[:DIMENSIONS] == hashed_letters("hello there")
    assert found[DIMENSIONS:] == watched.tokens("hello there")
    assert vectors.maker == MINILM
    assert vectors.of("") == b""
    # Where there are letters, but no words, it is told that the tokens are none.
    assert vectors.of("\x01\x02\x03")[DIMENSIONS:] == bytes(TOKENS) + MINILM


def test_a_text_is_read_once_however_often_it_is_asked_for(
    vectors: TextVectors, watched: Watched
) -> None:
    first = vectors.of("the same text")
    assert vectors.of("the same text") == first
    assert watched.read == ["the same text"]


def test_what_was_asked_for_long_ago_is_forgotten(
    vectors: TextVectors, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_vectors, "MOST_KEPT", 2)
    for text in ("one", "two", "one", "three", "one", "two"):
        vectors.of(text)
    assert watched.read == ["one", "two", "three", "two"]


@pytest.mark.anyio
async def test_texts_are_read_ahead_in_one_thread_while_the_loop_goes_on(
    vectors: TextVectors, watched: Watched
) -> None:
    turns = 0

    async def going_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.get_running_loop().create_task(going_on())
    texts = [f"write a short story about {n} rabbits" for n in range(6)]
    await asyncio.gather(*map(vectors.prepare, [*texts, *texts]))
    beside.cancel()
    assert sorted(watched.read) == sorted(texts)
    assert watched.most_at_once == 1
    assert all(name.startswith("text-vectors") for name in watched.threads)
    assert turns > len(texts)
    made = [vectors.of(text) for text in texts]
    assert len(set(made)) == len(watched.read) == 6
    vectors.close()


def test_without_weights_beginning_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_DATA", str(tmp_path))
    with pytest.raises(WeightsError) as caught:
        TextVectors(lambda: "minilm").begin()
    assert "`pointsman local install minilm`" in caught.value.hint


def test_the_setting_names_a_maker_and_nothing_else() -> None:
    assert read_settings(b"", "f").patterns.vectors == "static"
    assert read_settings(b"patterns: {vectors: minilm}\n", "f").patterns.vectors == "minilm"
    with pytest.raises(DocumentError):
        read_settings(b"patterns: {vectors: word2vec}\n", "f")


def test_the_doctor_tells_whether_the_vectors_can_be_made(
    tmp_path: Path, minilm_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings(b"patterns: {vectors: minilm}\n", "f")
    with a_home(tmp_path / "home") as pointsman:
        for folder, state in ((minilm_data, "ok"), (tmp_path, "fault")):
            monkeypatch.setenv("POINTSMAN_DATA", str(folder))
            found = examine_home(pointsman.home, pointsman.in_force(), settings)
            (about,) = [each for each in found if each.subject == "vectors"]
            assert about.state == state
        assert "`pointsman local install minilm`" in about.hint
        found = examine_home(pointsman.home, pointsman.in_force())
        assert not [each for each in found if each.subject == "vectors"]


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("patterns", "revector")])
def test_a_home_that_wants_weights_it_lacks_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    with a_home(tmp_path / "home"):
        (tmp_path / "home" / "pointsman.yaml").write_text("patterns: {vectors: minilm}\n")
    monkeypatch.setenv("POINTSMAN_DATA", str(tmp_path))
    done = CliRunner().invoke(main, [*words, "--home", str(tmp_path / "home")])
    assert (done.exit_code, done.output.count("error:")) == (2, 1)
    assert "the weights of MiniLM are not installed" in done.output
    assert "`pointsman local install minilm`" in done.output
