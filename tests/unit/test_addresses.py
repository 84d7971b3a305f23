"""What a refused caller reads of our own stores names none of their addresses."""

import pytest

from pointsman.errors import LedgerUnavailable, NotFound, RedisUnavailable
from pointsman.gateway.serving.addresses import hide_addresses, public_words


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'PostgreSQL cannot be reached: connection to server at "db.corp" (10.1.2.3), port 5432',
            "PostgreSQL cannot be reached: connection to server […]",
        ),
        (
            'connection to server on socket "/run/pg/.s.PGSQL.5432" failed: No such file',
            "connection to server on […] failed: No such file",
        ),
        (
            "nothing was acknowledged: postgresql://app@db.corp:5432/x (pointsman_ledger): gone",
            "nothing was acknowledged: […] (pointsman_ledger): gone",
        ),
        (
            'FATAL: no pg_hba.conf entry for host "10.1.2.3", user "app", database "x"',
            "FATAL: no pg_hba.conf entry for […], […], […]",
        ),
        (
            "redis does not answer: Error 111 connecting to cache.corp:6379. Connection refused.",
            "redis does not answer: Error 111 connecting […]. Connection refused.",
        ),
        ("the disk of /var/lib/home/ledger.db is full", "the disk of […] is full"),
        ("64 entries wait to be written already", "64 entries wait to be written already"),
    ],
)
def test_addresses_are_taken_out_and_causes_stay(text: str, told: str) -> None:
    assert hide_addresses(text) == told


def test_a_store_s_place_is_told_to_no_caller_and_a_document_s_is() -> None:
    lost = LedgerUnavailable("at 10.0.0.1:5432", where="postgresql://h/d", hint="start h")
    assert public_words(lost) == ("[…]", "", "start h")
    assert public_words(RedisUnavailable("to 10.0.0.1:6379"))[0] == "[…]"
    assert public_words(NotFound("no turn", where="10.0.0.1"))[1] == "10.0.0.1"
