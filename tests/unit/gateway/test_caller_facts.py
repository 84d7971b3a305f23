"""Who a request says it comes from, as rules see it."""

import pytest

from pointsman.access.keys import Principal
from pointsman.gateway.serving.http import Asked
from pointsman.gateway.turns.incoming import caller_facts
from pointsman.turns.facts import CallerFacts

BOB = Principal("k7", "bob", ("models",), tenant="acme")


@pytest.mark.parametrize(
    ("headers", "agent"),
    [
        ({}, ""),
        ({b"user-agent": b"claude-cli/2.0.14 (external, cli)"}, "claude-cli"),
        ({b"user-agent": b"OpenAI/Python 1.99.9"}, "openai"),
        ({b"user-agent": b"Robot (night)"}, "robot"),
        ({b"user-agent": b"OpenAI/Python 1.99.9", b"x-pointsman-agent": b"Nightly/3"}, "nightly"),
        ({b"user-agent": b"x" * 300}, "x" * 64),
    ],
)
def test_a_client_is_known_by_the_first_word_it_says(
    headers: dict[bytes, bytes], agent: str
) -> None:
    asked = Asked("POST", "/v1/messages", "", headers, b"", "127.0.0.1")
    assert caller_facts(asked, BOB) == CallerFacts("k7", "bob", "acme", agent)
