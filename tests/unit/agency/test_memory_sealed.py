"""What agents remember lies where it can be erased: the ledger holds keyed digests of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.agency.fleet import Fleet, opened

from pointsman.brainstate.events import Insertion, TickInputs
from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.sealing import opened_state, sealed_state
from pointsman.errors import IntegrityFailure, MissingSnapshot
from pointsman.kernel.content import seal_text
from pointsman.kernel.replay import Verdict
from pointsman.operations.erasure.scope import ErasureScope

ANSWER = {
    "text": "canary-reply",
    "confidence": 0.9,
    "wm": [{"type": "fact", "value": "remember canary-memory"},
           {"type": "fact", "value": {"canary-key": 1}}],
}  # fmt: skip
MIND = {
    "goals": [{"goal_id": "g1", "type": "answer", "priority": "0.9",
               "metadata": {"m": "canary-metadata"}}],
    "resource_budget": {"token_budget": 1000, "max_depth_allowed": 3},
    "attention": {"attention_gain": "0.8", "explore_bias": "0"},
}  # fmt: skip
SAID = {b"canary-query", b"canary-reply", b"canary-memory", b"canary-key", b"canary-metadata"}


def canaries(folder: Path, *but: str) -> set[bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    read = [path.read_bytes() for path in paths if not path.name.startswith(but)]
    return {each for data in read for each in SAID if each in data}


def run(fleet: Fleet) -> None:
    fleet.answers(a=ANSWER, b=ANSWER, c=ANSWER, generic=ANSWER)
    assert fleet.run("canary-query", brainstate=MIND).log.status == "done"


@pytest.mark.parametrize("retain", ["full", "redacted", "digest"])
def test_no_word_of_a_job_stands_in_a_file_that_cannot_be_erased(folder: Path, retain: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "pointsman.yaml").write_text(f"retain: {retain}\n")
    with opened(folder) as fleet:
        run(fleet)
        assert canaries(folder, "content.db") == set()
        assert (canaries(folder) == SAID) is (retain == "full")
        assert (canaries(folder) == set()) is (retain == "digest")
        verdict = fleet.jobs.replay("job-1")
    assert verdict.is_identical is (retain == "full")
    assert (verdict.verdict is Verdict.UNABLE) is (retain != "full")


def test_what_a_job_remembered_is_erased_and_its_replay_says_so(folder: Path) -> None:
    with opened(folder) as fleet:
        run(fleet)
        log_id = fleet.jobs.list_latest()[0].log_id
        report = fleet.pointsman.eraser.erase(ErasureScope("turn", log_id), "test")
        assert report.texts >= len(SAID)
        assert canaries(folder) == set()
        verdict = fleet.jobs.replay("job-1")
        assert (verdict.verdict, verdict.code) == (Verdict.UNABLE, "MISSING_SNAPSHOT")
        assert "was erased" in verdict.reason
        assert fleet.pointsman.verify().is_intact


def test_a_state_comes_back_with_its_texts_and_routes_without_them(folder: Path) -> None:
    with opened(folder) as fleet:
        inputs = TickInputs(wm=(Insertion("fact", '"canary-memory"'),))
        made = fleet.agency.tick(fleet.state(), inputs)
    with opened(folder) as again:
        assert again.agency.brainstate(made.id) == made.state
        assert again.agency.snapshots.mind(made.id).wm[0].value.startswith("hmac-sha256:")
        report = again.pointsman.eraser.erase(ErasureScope("turn", made.id), "test")
        assert report.texts >= 1
    with opened(folder) as last:
        with pytest.raises(MissingSnapshot, match="was erased"):
            last.agency.brainstate(made.id)
        assert last.agency.query(made.id) == routing_hints(made.state)


def test_a_text_in_place_of_a_seal_is_no_state(fleet: Fleet) -> None:
    made = fleet.agency.tick(fleet.state(), TickInputs(wm=(Insertion("fact", '"x"'),)))
    with pytest.raises(IntegrityFailure, match="only its seal may"):
        opened_state(made.state, lambda seal: seal.digest)
    sealed = sealed_state(made.state, lambda text: seal_text(text, bytes(32)))
    assert [each.wm_id for each in sealed.wm] == [each.wm_id for each in made.state.wm]
