"""Sealed texts."""

import pytest

from pointsman.errors import IntegrityFailure
from pointsman.kernel.content import Sealed, read_seal_text, seal_as_text, seal_text

DIGEST = "hmac-sha256:" + "0a" * 32


def test_a_seal_depends_on_text_and_key_and_tells_neither() -> None:
    seal = seal_text("+49 170 1234567", b"k" * 32)
    assert seal == seal_text("+49 170 1234567", b"k" * 32)
    assert seal != seal_text("+49 170 1234567", b"q" * 32)
    assert seal != seal_text("+49 170 1234568", b"k" * 32)
    assert "170" not in seal.digest
    assert seal.chars == 15


def test_a_text_with_lone_surrogates_can_be_sealed() -> None:
    assert seal_text("\ud800", b"k").digest.startswith("hmac-sha256:")


def test_a_seal_written_as_text_reads_back_the_same() -> None:
    assert seal_as_text(Sealed(DIGEST, 15)) == f"{DIGEST}/15"
    assert read_seal_text(f"{DIGEST}/15") == Sealed(DIGEST, 15)


@pytest.mark.parametrize(
    "text",
    [
        "call me at +49 170 1234567",
        DIGEST,
        f"{DIGEST}/",
        f"{DIGEST}/-1",
        f"{DIGEST}/1.5",
        f"{DIGEST}/\u0661",
        f"{DIGEST.upper()}/1",
        f"{DIGEST}00/1",
        f"plain {DIGEST}/1",
        "/1",
    ],
)
def test_a_clear_text_is_refused_where_its_seal_belongs(text: str) -> None:
    with pytest.raises(IntegrityFailure, match="a text stands where only its seal may"):
        read_seal_text(text)
