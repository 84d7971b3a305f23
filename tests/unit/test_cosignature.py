"""Signed notes, keys as text, and cosignatures."""

from __future__ import annotations

import pytest

from pointsman.errors import InputError
from pointsman.kernel.cosignature import (
    CosignRequest,
    TreeHead,
    cosignature_line,
    read_cosigned,
    read_request,
    read_tree_head,
    write_request,
)
from pointsman.kernel.note import LOG, WITNESS, NoteKey, read_note_key, split_note
from pointsman.kernel.signing import SigningKey

KEY = SigningKey(bytes(range(32)))
OTHER = SigningKey(bytes(range(1, 33)))
ROOT = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
BODY = f"example.com/log\n7\n{ROOT}\nextension\n"


def cosigned(name: str = "w1.example", key: SigningKey = KEY, at_s: int = 1_700_000_000) -> str:
    return f"{BODY}\n{cosignature_line(name, key, BODY, at_s)}"


def test_a_cosignature_verifies_and_tells_its_time() -> None:
    witness = NoteKey("w1.example", WITNESS, KEY)
    head, found = read_cosigned(cosigned(), [witness])
    assert head == TreeHead("example.com/log", 7, head.root)
    assert [(each.witness, each.at_s) for each in found] == [("w1.example", 1_700_000_000)]


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    _, (signature,) = split_note(cosigned())
    assert signature.signature[:8] == (1_700_000_000).to_bytes(8, "big")
    message = f"cosignature/v1\ntime 1700000000\n{BODY}".encode()
    assert KEY.verifies(message, signature.signature[8:])


@pytest.mark.parametrize(
    "note",
    [
        cosigned(key=OTHER),
        cosigned(name="w2.example"),
        cosigned().replace("extension", "extensiom"),
        cosigned(at_s=300_000_000_000),
    ],
)
def test_what_is_not_cosigned_counts_for_nothing(note: str) -> None:
    assert read_cosigned(note, [NoteKey("w1.example", WITNESS, KEY)])[1] == ()


def test_a_cosignature_of_one_time_is_none_of_another() -> None:
    _, (signature,) = split_note(cosigned())
    later = (1_700_000_001).to_bytes(8, "big") + signature.signature[8:]
    line = cosigned().rpartition("\n\n")[2]
    key = NoteKey("w1.example", WITNESS, KEY)
    from pointsman.kernel.note import signature_line

    note = cosigned().replace(line, signature_line("w1.example", signature.key_id, later))
    assert read_cosigned(note, [key])[1] == ()


def test_a_key_is_read_as_it_was_written() -> None:
    key = NoteKey("w1.example", WITNESS, KEY)
    again = read_note_key(f"{key.text()}\n", WITNESS)
    assert (again.name, again.kind, again.key.public) == ("w1.example", WITNESS, KEY.public)
    log = NoteKey("pointsman/x", LOG, KEY)
    assert log.id != NoteKey("pointsman/x", WITNESS, KEY).id


@pytest.mark.parametrize("text", ["", "a+b", "a+00000000+AAAA", "a b+00000000+AAAA"])
def test_a_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not the key of a witness"):
        read_note_key(text, WITNESS)


def test_a_key_whose_id_is_wrong_or_of_another_kind_is_refused() -> None:
    text = NoteKey("w1.example", WITNESS, KEY).text()
    name, _, rest = text.split("+", 2)
    with pytest.raises(InputError, match="the id in"):
        read_note_key(f"{name}+00000000+{rest}", WITNESS)
    with pytest.raises(InputError, match="is not the key of a log"):
        read_note_key(text, LOG)


def test_a_request_is_read_as_it_was_written() -> None:
    request = CosignRequest(5, (bytes(32), b"\x01" * 32), cosigned())
    assert read_request(write_request(request)) == request
    empty = CosignRequest(0, (), cosigned())
    assert read_request(write_request(empty)) == empty


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"old 0\n",
        b"new 0\n\nnote",
        b"old 01\n\nnote",
        b"old -1\n\nnote",
        b"old 1\nAAAA\n\nnote",
        b"old 1\nnot base64!\n\nnote",
        b"old 1\n" + b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" * 64 + b"\nnote",
        b"\xff\n\nnote",
    ],
)
def test_a_request_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_request(data)


@pytest.mark.parametrize(
    "body",
    ["", "a\n1\n", f"\n1\n{ROOT}\n", f"a\nx\n{ROOT}\n", f"a\n1\n{ROOT[:-1]}\n", "a\n1\nAAAA\n",
     f"a\n1\n{ROOT}\n\nb\n", f"a\n1{'0' * 20}\n{ROOT}\n"],
)  # fmt: skip
def test_a_checkpoint_that_is_none_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_tree_head(body)


@pytest.mark.parametrize(
    "note", ["", "text", f"{BODY}\n", f"{BODY}\nno dash AAAAAAAA\n", f"{BODY}\n— a AAAA\n",
             f"{BODY}\n" + "— a AAAAAAAA\n" * 65],
)  # fmt: skip
def test_a_note_that_is_none_is_refused(note: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        split_note(note)
