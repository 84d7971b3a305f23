"""Signed notes in the C2SP form: a text, and signatures that each name their key.

Pure. A checkpoint is a note; `kernel.cosignature` reads and writes what witnesses add to one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Final, Literal

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.signing import VerifyKey

DASH: Final = "\N{EM DASH} "
LOG: Final = 0x01
"""The type of a log's own Ed25519 signature."""
WITNESS: Final = 0x04
"""The type of a witness's timed Ed25519 signature."""
MOST_SIGNATURES: Final = 64

KeyKind = Literal[0x01, 0x04]
_NAME = re.compile(r"[^\s+]{1,200}")


class NoteKey(Struct, frozen=True):
    """The public key of a log or of a witness, with the name it signs under."""

    name: str
    kind: KeyKind
    key: VerifyKey

    @property
    def id(self) -> bytes:
        """The four bytes that a signature begins with."""
        return note_key_id(self.name, self.kind, self.key.public)

    def text(self) -> str:
        """Write the key as others take it: name, id and key, joined by `+`."""
        return f"{self.name}+{self.id.hex()}+{to_base64(bytes([self.kind]) + self.key.public)}"


class NoteSignature(Struct, frozen=True):
    """One signature below a note: who says to have made it, and its bytes without the key's id."""

    name: str
    key_id: bytes
    signature: bytes


def note_key_id(name: str, kind: KeyKind, public: bytes) -> bytes:
    """Return the four bytes that stand for a key in its signatures."""
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def read_note_key(text: str, kind: KeyKind) -> NoteKey:
    """Read a key as it is published, or raise saying why it is none."""
    name, _, rest = text.strip().partition("+")
    key_id, _, encoded = rest.partition("+")
    try:
        data = from_base64(encoded)
    except ValueError:
        data = b""
    if not _NAME.fullmatch(name) or len(data) != 33 or data[0] != kind:
        whose = "witness" if kind == WITNESS else "log"
        raise InputError(f"`{text[:80]}` is not the key of a {whose}", hint="NAME+ID+KEY, one line")
    found = NoteKey(name, kind, VerifyKey(data[1:]))
    if found.id.hex() != key_id:
        raise InputError(f"the id in `{text[:80]}` is not that of its key", hint="copy it again")
    return found


def split_note(text: str) -> tuple[str, tuple[NoteSignature, ...]]:
    """Split a note into its text and its signatures, none of them verified; raise ValueError."""
    body, gap, lines = text.rpartition("\n\n")
    if not gap or not lines.endswith("\n") or lines.count("\n") > MOST_SIGNATURES:
        raise ValueError("it is not a signed note")
    return body + "\n", tuple(read_signature(line) for line in lines[:-1].split("\n"))


def read_signature(line: str) -> NoteSignature:
    """Read one signature line, or raise ValueError."""
    name, _, encoded = line.removeprefix(DASH).partition(" ")
    data = from_base64(encoded)
    if not line.startswith(DASH) or not _NAME.fullmatch(name) or len(data) < 5:
        raise ValueError("a signature of the note cannot be read")
    return NoteSignature(name, data[:4], data[4:])


def signature_line(name: str, key_id: bytes, signature: bytes) -> str:
    """Write one signature line, with its newline."""
    return f"{DASH}{name} {to_base64(key_id + signature)}\n"


def to_base64(data: bytes) -> str:
    """Write bytes in the standard alphabet, with padding."""
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes:
    """Read the one way to write some bytes, or raise ValueError."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(text) from error
    if to_base64(data) != text:
        # Unused bits in the last character would let two texts mean the same.
        raise ValueError(text)
    return data
