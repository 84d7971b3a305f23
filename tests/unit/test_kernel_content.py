"""Sealed texts."""

import pytest

from pointsman.errors import MissingSnapshot
from pointsman.kernel.content import Sealed, no_texts, seal_text


def test_a_seal_depends_on_text_and_key_and_tells_neither() -> None:
    seal = seal_text("+49 170 1234567", b"k" * 32)
    assert seal == seal_text("+49 170 1234567", b"k" * 32)
    assert seal != seal_text("+49 170 1234567", b"q" * 32)
    assert seal != seal_text("+49 170 1234568", b"k" * 32)
    assert "170" not in seal.digest
    assert seal.chars == 15


def test_a_text_with_lone_surrogates_can_be_sealed() -> None:
    assert seal_text("\ud800", b"k").digest.startswith("hmac-sha256:")


def test_without_a_content_store_every_text_is_missing() -> None:
    with pytest.raises(MissingSnapshot, match="not at hand"):
        no_texts(Sealed("hmac-sha256:00", 1))
