"""A server that goes and comes back: stores that were open before it work after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.contract.stores.populated import a_spent, an_outcome
from tests.servers import PostgresServer

from pointsman.access.book import opened_book
from pointsman.access.keyring import ACCESS
from pointsman.app import Pointsman
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd
from pointsman.storage.stores.access import AccessStore, StoredKey
from pointsman.storage.stores.conversations import CONVERSATIONS, ConversationStore, StoredSession
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.semantic import SEMANTIC, Provenance, SemanticMemory, write_version
from pointsman.storage.stores.sessions import SessionStore
from pointsman.turns.learning.fingerprint import Fingerprint

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, to be killed."""
    with closing(PostgresServer()) as found:
        yield found


def test_every_open_store_outlives_its_server(server: PostgresServer, tmp_path: Path) -> None:
    """What was there is found again, and writing goes on, with nobody opened anew."""
    with ExitStack() as stack, Pointsman(tmp_path, store=server.fresh()) as pointsman:
        home = pointsman.home
        keys = stack.enter_context(closing(AccessStore(home.place(ACCESS))))
        sessions = stack.enter_context(closing(SessionStore(home.sessions)))
        talks = stack.enter_context(closing(ConversationStore(home.place(CONVERSATIONS), "full")))
        patterns = stack.enter_context(closing(PatternStore(home.patterns)))
        memory = stack.enter_context(closing(SemanticMemory(home.place(SEMANTIC))))
        book = stack.enter_context(closing(opened_book(home, "serve")))

        def use(number: int) -> None:
            name, at = f"n{number}", Instant(number)
            keys.add(StoredKey(name, bytes(32), b"{}"))
            sessions.pin(name, "p:m", at).result()
            talks.begin(StoredSession(name, "", "", None, "auto", None, at, at, None)).result()
            patterns.record(
                Fingerprint(intent_tags=(name,)),
                b"",
                model="p:m",
                turn_id=name,
                cost_microusd=MicroUsd(1),
                latency_ms=1,
                pricing_version="",
                at=at,
            )
            by = Provenance(name, "e", "h", "ann", (), at)
            write_version(home.place(SEMANTIC), "n", name, b"1", by)
            pointsman.decision_recorder.recorder().record(an_outcome(name, a_spent("s")))
            book.flush()
            assert [each.id for each in keys.every_key()] == [f"n{n}" for n in range(number + 1)]
            assert len(sessions.pins()) == len(talks.sessions()) == number + 1
            assert len(patterns.nearest(Fingerprint(), b"", 9)) == number + 1
            assert len(memory.list_namespace("n")) == number + 1
            assert book.cost(("all", "", "", 0, 2**40)) == 25 * (number + 1)

        use(0)
        for number in (1, 2):
            server.kill()
            server.start()
            use(number)
