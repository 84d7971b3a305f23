"""Redaction for keeping."""

import pytest

from pointsman.signals.redaction import redact


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("mail jane@example.org now", "mail [email] now"),
        ("call +49-170-1234567!", "call [phone]!"),
        ("card 4111 1111 1111 1111 12/27", "card [payment_card] 12/27"),
        ("host=192.168.1.10:8080", "host=[private_ip_address]:8080"),
        ("jane@home or 2024001", "[address] or [number]"),
        ("password = 'hunter2!x'", "password = '[password_assignment]'"),
        ("key sk-abcdefghijklmnopqrstuvwxyz", "key [long]"),
        ("room 1234 is\nfine  here", "room 1234 is\nfine  here"),
        ("@opus hello", "@opus hello"),
        ("", ""),
    ],
)
def test_what_looks_like_an_address_a_number_or_a_key_is_replaced(text: str, kept: str) -> None:
    assert redact(text) == kept


def test_redacting_twice_changes_nothing_more() -> None:
    once = redact("a@b.c 12345 " + "x" * 30)
    assert redact(once) == once
