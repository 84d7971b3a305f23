"""A witness: what it cosigns, what it refuses and how, and what it never forgets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pointsman.errors import DocumentError, HomeError
from pointsman.kernel.consistency import consistency_proof
from pointsman.kernel.cosignature import CosignRequest, read_cosigned, write_request
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier, append_leaves, leaf_hash, root
from pointsman.kernel.note import LOG, WITNESS, NoteKey, read_note_key, signature_line, to_base64
from pointsman.kernel.signing import SigningKey
from pointsman.storage.stores.witnessed_logs import WitnessedLogs
from pointsman.witnessing.witness import CosigningWitness, Refusal, make_witness, witness_key

KEY = SigningKey(bytes(range(32)))
STRANGER = SigningKey(bytes(range(1, 33)))
LEAVES = [leaf_hash(b"%d" % number) for number in range(40)]
OTHERS = [leaf_hash(b"other %d" % number) for number in range(40)]
SECONDS = 1_700_000_000


def note(
    size: int, leaves: list[bytes] = LEAVES, origin: str = "log/a", key: SigningKey = KEY
) -> str:
    tree = to_base64(root(append_leaves(Frontier(), leaves[:size])))
    body = f"{origin}\n{size}\n{tree}\n"
    signed = NoteKey(origin, LOG, key)
    return f"{body}\n{signature_line(origin, signed.id, key.sign(body.encode()))}"


def request(old: int, new: int, leaves: list[bytes] = LEAVES, **more: object) -> bytes:
    frontier = append_leaves(Frontier(), leaves[:old])
    proof = consistency_proof(frontier, leaves[old:new])
    return write_request(CosignRequest(old, tuple(proof), note(new, leaves, **more)))  # type: ignore[arg-type]


def make(folder: Path, *logs: str, most: int = 1000) -> CosigningWitness:
    make_witness(folder, "w.example")
    known = logs or (NoteKey("log", LOG, KEY).text(),)
    text = json.dumps({"name": "w.example", "logs": known, "max_logs": most})
    (folder / "witness.yaml").write_text(text)
    seen = WitnessedLogs(folder / "seen.db")
    return CosigningWitness(folder, lambda: Instant(SECONDS * 1_000_000), seen)


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[CosigningWitness]:
    found = make(tmp_path / "w")
    yield found
    found.close()


def refused(witness: CosigningWitness, data: bytes) -> tuple[int, str]:
    with pytest.raises(Refusal) as told:
        witness.cosign(data)
    return told.value.status, told.value.body.strip()


def test_a_log_that_grows_is_cosigned(witness: CosigningWitness) -> None:
    for old, new in ((0, 3), (3, 7), (7, 7), (7, 40)):
        line = witness.cosign(request(old, new))
        head, found = read_cosigned(f"{note(new)}{line}", [read_note_key(witness.key, WITNESS)])
        assert (head.size, [each.at_s for each in found]) == (new, [SECONDS])
    (kept,) = witness.view("log/").logs
    assert (kept.origin, kept.size) == ("log/a", 40)
    assert read_cosigned(kept.note, [read_note_key(witness.key, WITNESS)])[1]


def test_what_is_not_the_log_grown_is_refused_as_the_protocol_says(
    witness: CosigningWitness,
) -> None:
    witness.cosign(request(0, 7))
    assert refused(witness, request(0, 9)) == (409, "7")
    assert refused(witness, request(5, 9)) == (409, "7")
    assert refused(witness, request(7, 7, OTHERS)) == (409, "7")
    assert refused(witness, request(7, 9, OTHERS))[0] == 422
    mixed = [*LEAVES[:6], *OTHERS]
    assert refused(witness, request(7, 9, mixed))[0] == 422
    assert refused(witness, write_request(CosignRequest(9, (), note(7))))[0] == 400
    assert refused(witness, b"nonsense")[0] == 400
    assert refused(witness, write_request(CosignRequest(7, (), "log/a\n")))[0] == 400
    # None of it moved what was seen.
    assert witness.view("").logs[0].size == 7
    assert witness.cosign(request(7, 9))


def test_who_may_sign_is_looked_at_first(witness: CosigningWitness) -> None:
    assert refused(witness, request(0, 3, origin="elsewhere/a"))[0] == 404
    assert refused(witness, request(0, 3, origin="logs"))[0] == 404
    assert refused(witness, request(0, 3, key=STRANGER))[0] == 403
    forged = request(0, 3).replace(b"log/a\n3\n", b"log/a\n4\n")
    assert refused(witness, forged)[0] == 403
    assert witness.view("").logs == ()


def test_a_witness_bounds_how_many_logs_it_keeps(tmp_path: Path) -> None:
    witness = make(tmp_path / "w", most=2)
    for name in ("log/a", "log/b"):
        witness.cosign(request(0, 3, origin=name))
    assert refused(witness, request(0, 3, origin="log/c"))[0] == 404
    assert witness.cosign(request(3, 5, origin="log/a"))
    assert [each.origin for each in witness.view("log/b").logs] == ["log/b"]
    witness.close()


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    first = make(tmp_path / "w")
    first.cosign(request(0, 7))
    first.close()
    again = make(tmp_path / "w")
    assert again.key == first.key
    assert refused(again, request(0, 5, OTHERS)) == (409, "7")
    again.close()


def test_nothing_is_signed_that_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line leaves only behind the commit: a commit that fails gives none."""
    witness = make(tmp_path / "w")
    kept: list[str] = []
    advance = WitnessedLogs.advance

    def failing(self: WitnessedLogs, origin: str, decide: object) -> str:
        kept.append(origin)
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(WitnessedLogs, "advance", failing)
    with pytest.raises(OSError, match="No space"):
        witness.cosign(request(0, 3))
    monkeypatch.setattr(WitnessedLogs, "advance", advance)
    assert kept == ["log/a"]
    assert witness.view("").logs == ()
    witness.close()


def test_a_folder_that_is_no_witness_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="there is no witness here"):
        witness_key(tmp_path / "w")
    with pytest.raises(DocumentError):
        make_witness(tmp_path / "w", "a name")


def test_a_broken_key_in_the_file_is_named_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="is not the key of a log"):
        make(tmp_path / "w", "log+00000000+AAAA")
