"""Every decision of the corpus is the same recorded in SQLite and in PostgreSQL, byte for byte."""

import shutil
from pathlib import Path

import pytest
from tests.replay import decide_corpus as corpus

from pointsman.agents.decide import DECISION_VERSION as AGENT_VERSION
from pointsman.agents.modules.selfrep import SELFREP_FORM, selfrep_id
from pointsman.agents.policy import POLICY_FORM as AGENTS_POLICY_FORM
from pointsman.audit.replay import replay_all
from pointsman.audit.verify import verify_ledger
from pointsman.jobs.entries import SELFREP
from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import Aside, Names
from pointsman.placement.decide import DECISION_VERSION as PLACEMENT_VERSION
from pointsman.placement.policy import POLICY_FORM as PLACEMENT_POLICY_FORM
from pointsman.recording.recorder import MadeDecision, PinnedSnapshot, Recorder
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.home import open_home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing.builders import CountedIds, FrozenClock
from pointsman.turns.decide import DECISION_VERSION as TURN_VERSION
from pointsman.turns.policy import POLICY_FORM

pytestmark = pytest.mark.slow  # with a server that only the main environment has

COUNT = int((Path(__file__).parent / "corpus_digest.txt").read_text().split()[0])
CONTENT_KEY = b"k" * 32
ROOMS = {
    (True, False): ("placement", PLACEMENT_VERSION, PLACEMENT_POLICY_FORM),
    (False, True): ("turn", TURN_VERSION, POLICY_FORM),
    (False, False): ("agent", AGENT_VERSION, AGENTS_POLICY_FORM),
}
ASIDE = Aside(0, "", "größe", is_preview=False, product_version="0")


@pytest.fixture(scope="module")
def homes(tmp_path_factory, postgres_server):
    """Two homes of one identity with the whole corpus recorded, in files and in PostgreSQL."""
    folder = tmp_path_factory.mktemp("corpus")
    open_home(folder / "files")
    (folder / "files" / "keys" / "content").write_text(CONTENT_KEY.hex() + "\n")
    shutil.copytree(folder / "files", folder / "shared")
    url = postgres_server.fresh()
    found = open_home(folder / "files"), open_home(folder / "shared", store=url)
    for home in found:
        record(home)
    yield found
    postgres_server.drop(url)


def record(home):
    clock, ids = FrozenClock(), CountedIds()
    opening = Draft("ledger.opened", "opening", "", clock.now(), b"{}")
    recorder = Recorder(home, "cli", opening)
    waits = BlockingWaiter()
    for message in corpus.MESSAGES:
        recorder.hand_in_text(message, waits)
    for made in made_of(home.identity.ledger):
        recorder.hand_in_decision(
            Names(ids.new_id(), "ref", clock.now()), made, ASIDE, waits.expect()
        )
    waits.wait()
    recorder.close()


def made_of(ledger):
    """Give every decision of the corpus as a home records it."""
    tables, turns = set(corpus.tables()), set(corpus.policies())
    modules = {selfrep_id(each): each for _, each in corpus.houses()}
    for policy, facts, decided in corpus.decisions():
        room, version, form = ROOMS[(policy in tables, policy in turns)]
        value = form.form.decode(policy)
        yield MadeDecision(
            room,
            version,
            ContentId(content_id(policy)),
            lambda key, form=form, value=value: form.make(value, ledger, key),
            facts,
            *decided,
            pinned(room, facts, modules, ledger),
        )


def pinned(room, facts, modules, ledger):
    if room != "agent":
        return {}
    name = corpus.JOB_FACTS_FORM.decode(facts).selfrep_id
    return {
        SELFREP: PinnedSnapshot(name, lambda key: SELFREP_FORM.make(modules[name], ledger, key))
    }


def recorded(home):
    """Return every entry of a home with what is attached to it."""
    reader = LedgerReader(home.database)
    try:
        number = reader.chains()["cli"]
        bodies = [*reader.chain_attachments(number)]
        return [*reader.chain_entries(number)], bodies
    finally:
        reader.close()


def test_the_whole_corpus_is_recorded_alike(homes):
    (files, bodies), (shared, shared_bodies) = map(recorded, homes)
    decisions = [entry for entry in files if entry.kind.startswith("decision.")]
    assert len(decisions) == COUNT
    assert {entry.kind for entry in decisions} == {
        "decision.agent",
        "decision.placement",
        "decision.turn",
    }
    assert files == shared
    assert bodies == shared_bodies


def test_both_are_intact_and_replay_alike(homes):
    reports = [replay_all(home) for home in homes]
    assert reports[0] == reports[1]
    assert reports[0].is_clean
    assert reports[0].total == COUNT
    assert all(verify_ledger(home).is_intact for home in homes)
