"""Verify an exported ledger bundle on any machine: Python 3.9 or newer and this one file.

Written apart from the product, from the published format alone, so that an audit does not inherit
the product's mistakes. Usage: python pointsman_verify.py BUNDLE [--key KEY] [--json]
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    IS_FAST = True
except ImportError:  # an auditor needs nothing but Python
    IS_FAST = False

FORMAT = "pointsman/bundle/1"
MAX_LINE = 64 << 20
MAX_UNSIGNED = 256
NAME = re.compile(r"[ -~]{0,128}")
CHAIN = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
ENTRY = {"at", "attached", "hash", "id", "kind", "prev", "ref", "seq"}
HEADER = {"format", "keys", "ledger"}
ROTATION = {"at", "by_new", "by_old", "chains", "compromised_since", "ledger", "new", "old"}
NO_ENTRY = (b'{"chain":', b'{"checkpoint":', b'{"end":', b'{"digest":')
NOTE = (
    r"(%s\n(0|[1-9][0-9]{0,18})\n(B{43}=)\nhead (B{43}=)\nat [-0-9T:.]{26}Z\n((?:peak B{43}=\n)*))"
    "\n\N{EM DASH} %s (B{91}=)\n"
).replace("B", "[A-Za-z0-9+/]")
UNKNOWN_KEY = (
    "compare it with the key that the ledger's owner published: anybody can sign with their own"
)


PROVEN = {
    "outsiders": "proven against all without a key",
    "operator_without_key": "proven against all without a key; nothing speaks against the owner",
    "operator_with_key": "proven against everyone, the owner with all keys included",
}


class Unusable(Exception):
    """The input is not a bundle."""


class BundleBroken(Exception):
    """The bundle differs from the record; `seq` names an entry other than the one at hand."""

    def __init__(self, message: str, seq: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq


def need(is_right: object, message: str, seq: int | None = None) -> None:
    """Raise where something is not as it should be."""
    if not is_right:
        raise BundleBroken(message, seq)


# Ed25519 of RFC 8032, strict: there is one encoding of every point and number.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Point = tuple[int, int, int, int]


def _add(a: Point, b: Point) -> Point:
    m, n = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    s, t = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = n - m, t - s, t + s, n + m
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(number: int, point: Point) -> Point:
    total = (0, 1, 1, 0)
    while number:
        if number & 1:
            total = _add(total, point)
        point = _add(point, point)
        number >>= 1
    return total


@lru_cache(maxsize=64)
def _point(encoded: bytes) -> Point | None:
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = _point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little")) or (0, 1, 1, 0)


def verifies_slowly(public: bytes, message: bytes, signature: bytes) -> bool:
    """Verify a signature with nothing but Python."""
    key, commitment = _point(public), _point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    left, right = _times(s, BASE), _add(commitment, _times(k, key))
    return all((left[i] * right[2] - right[i] * left[2]) % P == 0 for i in (0, 1))


def verifies_fast(public: bytes, message: bytes, signature: bytes) -> bool:
    """Verify a signature by the `cryptography` package, which reads keys less strictly."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return _point(public) is not None


def verifies(public: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether the signature was made over exactly this message."""
    check = verifies_fast if IS_FAST else verifies_slowly
    return len(public) == 32 and len(signature) == 64 and check(public, message, signature)


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 digest."""
    return hashlib.sha256(data).digest()


def key_id(public: bytes) -> str:
    """Name a public key the way the ledger's owner publishes it."""
    return "ed25519:" + sha256(public).hex()[:32]


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is not a whole number in range")


def _integer(text: str) -> int:
    return int(text) if len(text) <= 20 else _refuse_number(text)


DECODER = json.JSONDecoder(
    parse_float=_refuse_number, parse_constant=_refuse_number, parse_int=_integer
)
ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def parse(line: bytes) -> dict[str, Any]:
    """Read one line, which must be the one way to write its object."""
    try:
        text = line.decode("utf-8")
        value = DECODER.decode(text)
        is_exact = ENCODER.encode(value) + "\n" == text
    except (ValueError, RecursionError) as error:
        raise BundleBroken(f"the line cannot be read: {str(error)[:80]}") from None
    need(is_exact and isinstance(value, dict), "the line is not written in its one allowed form")
    return dict(value)


def unhex(value: object, size: int) -> bytes:
    """Read so many bytes in lower-case hex."""
    is_hex = isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{2 * size}}}", value)
    need(is_hex, f"a value is not {size} bytes in lower-case hex")
    return bytes.fromhex(str(value))


def _bytes(value: dict[str, Any], text: str, hexed: str) -> bytes:
    """Read bytes that are written as text where they are UTF-8, as hex where they are not."""
    given = value.get(text, value.get(hexed))
    if not isinstance(given, str):
        raise BundleBroken(f"`{text}` is not text")
    if text in value:
        return given.encode("utf-8")
    data = unhex(given, len(given) // 2)
    need(data.decode("utf-8", "ignore").encode("utf-8") != data, f"`{hexed}` holds text")
    return data


def whole(value: Any, least: int = 0) -> int:
    """Return a whole number in range."""
    is_whole = type(value) is int and least <= value < 2**63
    need(is_whole, "a value is not a whole number in range")
    return int(value)


class Audit:
    """One pass over a bundle; `run` gives the first fault, or nothing."""

    def __init__(self, lines: BinaryIO) -> None:
        self.lines, self.digest, self.number = lines, hashlib.sha256(), 0
        self.ledger, self.signer, self.chain, self.last = "", "", "", ""
        self.keys: list[bytes] = []
        self.ends: dict[bytes, dict[str, int]] = {}  # what replaced keys still count for
        self.compromised: dict[str, str] = {}
        self.period: Any = None
        self.first = 0  # where the checkpoint must stand that a part of a chain begins with
        self.chains = self.entries = self.checkpoints = self.size = self.signed = 0
        self.prefix = self.head = b""
        self.peaks: list[bytes] = []
        self.wanted: list[tuple[int, bytes]] = []  # the attachments that must come next
        self.snapshot: tuple[str, str, bytes] | None = None
        # For witnesses: of each chain the signed roots, and where it begins and ends here.
        self.roots: dict[str, dict[int, str]] = {}
        self.begun: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.notes: list[str] = []

    def run(self) -> dict[str, Any] | None:
        """Check every line in order."""
        line = self._next_line()
        try:
            self._header(line)
        except BundleBroken as bad:
            return self._fault(bad, line)
        return self.rest()

    def rest(self) -> dict[str, Any] | None:
        """Check the lines after the header, or those after any other."""
        while True:
            line = self._next_line()
            try:
                if self._take(line):
                    return None
            except BundleBroken as bad:
                return self._fault(bad, line)

    def _fault(self, bad: BundleBroken, line: bytes) -> dict[str, Any]:
        seq = bad.seq
        if seq is None and self.chain and (self.wanted or not line.startswith(NO_ENTRY)):
            seq = self.size - 1 if self.wanted else self.size
        chain = self.chain if seq is not None else ""
        return {"chain": chain, "seq": seq, "line": self.number, "message": str(bad)}

    def _next_line(self) -> bytes:
        self.number += 1
        return self.lines.readline(MAX_LINE + 1)

    def _header(self, line: bytes) -> None:
        try:
            value = parse(line)
            more = set(value) - HEADER
            is_header = value.get("format") == FORMAT and more <= {"period", "rotations"}
            if not is_header or not isinstance(value.get("keys"), list):
                raise Unusable("not a bundle: its first line is not a header")
            self.ledger = unhex(value.get("ledger"), 16).hex()
            self.keys = [unhex(key, 32) for key in value["keys"]]
        except BundleBroken as bad:
            raise Unusable(f"not a bundle: {bad}") from None
        self.follow(value.get("rotations", []))
        self.period = value.get("period")
        is_named = isinstance(self.period, dict) and set(self.period) == {"since", "until"}
        need(self.period is None or is_named, "the period cannot be read")
        self.digest.update(line)

    def follow(self, rotations: Any) -> None:
        """Follow the keys from the first to the newest: each is named by the one before it."""
        is_whole = isinstance(rotations, list) and len(rotations) == len(self.keys) - 1
        need(is_whole, "a key does not follow from the one before it")
        for old, new, made in zip(self.keys, self.keys[1:], rotations):  # noqa: B905 - Python 3.9
            need(isinstance(made, dict) and set(made) == ROTATION, "a rotation cannot be read")
            said = ENCODER.encode({**made, "by_new": "", "by_old": ""}).encode()
            pairs = ((old, unhex(made["by_old"], 64)), (new, unhex(made["by_new"], 64)))
            message = b"pointsman/rotation/1\0" + said
            named = [made["ledger"], made["old"], made["new"]]
            is_named = named == [self.ledger, old.hex(), new.hex()]
            is_signed = all(verifies(key, message, by) for key, by in pairs)
            need(is_named and is_signed, f"the key before it did not name {key_id(new)}")
            need(isinstance(made["chains"], dict), "a rotation cannot be read")
            self.ends[old] = {name: whole(size) for name, size in made["chains"].items()}
            if made["compromised_since"]:
                self.compromised[key_id(old)] = str(made["compromised_since"])

    def current(self, size: int) -> list[bytes]:
        """Return the keys that may have signed that the chain had so many entries."""
        ends = [self.ends.get(key, {self.chain: size}).get(self.chain, 0) for key in self.keys]
        return [key for key, end in zip(self.keys, ends) if size <= end]  # noqa: B905 - Python 3.9

    def _take(self, line: bytes) -> bool:
        need(len(line) <= MAX_LINE, "the line is too long")
        need(line.endswith(b"\n"), "the bundle was cut off")
        value = parse(line)
        keys = set(value)
        need(not self.first or keys == {"checkpoint"}, "a part begins with its checkpoint")
        if self.wanted:
            self._attachment(value, keys)
        elif not self.chain and keys == {"digest", "key", "lines", "signature"}:
            self._footer(value)
            return True
        elif not self.chain and keys in ({"chain"}, {"chain", "first"}):
            self._begin(value["chain"])
            self.first = whole(value["first"], 1) if "first" in value else 0
            need(not self.first or self.period, "the chain does not begin with its first entry")
        elif self.chain and keys in (ENTRY | {"payload"}, ENTRY | {"payload_hex"}):
            self._entry(value)
        elif self.chain and keys == {"checkpoint"}:
            self._checkpoint(value["checkpoint"])
        elif self.chain and keys == {"end", "entries", "head"}:
            self._end(value)
        else:
            raise BundleBroken("the line is out of place")
        self.digest.update(line)
        return False

    def _begin(self, name: Any) -> None:
        is_next = isinstance(name, str) and CHAIN.fullmatch(name) and name > self.last
        need(is_next, "a chain is misnamed, out of order or there twice")
        self.chain = self.last = name
        self.chains, self.size, self.signed, self.peaks = self.chains + 1, 0, 0, []
        place = bytes.fromhex(self.ledger) + struct.pack(">H", len(name)) + name.encode()
        self.prefix = b"pointsman/entry/1\0" + place
        self.head = sha256(b"pointsman/genesis/1\0" + self.prefix)

    def _entry(self, value: dict[str, Any]) -> None:
        names = [value["kind"], value["id"], value["ref"]]
        are_names = all(isinstance(name, str) and NAME.fullmatch(name) for name in names)
        need(are_names, "the entry has a name that cannot be recorded")
        seq = whole(value["seq"])
        need(seq == self.size, f"the entry is missing: the one here says it is {seq}")
        need(unhex(value["prev"], 32) == self.head, "the entry does not follow the one before it")
        is_list = isinstance(value["attached"], list) and len(value["attached"]) < 2048
        need(is_list, "the entry's attachments cannot be read")
        digests = [unhex(each, 32) for each in value["attached"]]
        payload, at = _bytes(value, "payload", "payload_hex"), whole(value["at"], -(2**63))
        texts = [name.encode() for name in names]
        sizes = [*map(len, texts), 32 * len(digests), len(payload)]
        fixed = struct.pack(">Q32sqHHHHI", self.size, self.head, at, *sizes)
        leaf = sha256(b"".join([b"\0", self.prefix, fixed, *texts, *digests, payload]))
        need(leaf == unhex(value["hash"], 32), "the entry is not what was recorded")
        self.head, self.size, self.entries = leaf, self.size + 1, self.entries + 1
        self._grow(leaf)
        self.wanted = list(enumerate(digests))
        if names[0] == "event.witness.cosigned":
            self.notes.append(str(json.loads(payload).get("note")))
        self.snapshot = (names[1], names[2], payload) if names[0] == "snapshot" else None
        is_right = not self.snapshot or len(digests) == 1
        need(is_right, "the snapshot does not have one body", self.size - 1)

    def _grow(self, leaf: bytes) -> None:
        # The tree of RFC 6962, kept as its perfect subtrees; the size counts this leaf already.
        level = self.size
        while not level & 1:
            leaf, level = sha256(b"\1" + self.peaks.pop() + leaf), level >> 1
        self.peaks.append(leaf)

    def _root(self) -> bytes:
        peaks = self.peaks[:] or [sha256(b"")]
        while len(peaks) > 1:
            right, left = peaks.pop(), peaks.pop()
            peaks.append(sha256(b"\1" + left + right))
        return peaks[0]

    def _attachment(self, value: dict[str, Any], keys: set[str]) -> None:
        place, digest = self.wanted[0]
        is_one = keys in ({"attachment", "text"}, {"attachment", "hex"})
        is_one = is_one and whole(value["attachment"]) == place
        need(is_one, f"its attachment {place} is missing")
        body = _bytes(value, "text", "hex")
        need(sha256(body) == digest, f"its attachment {place} is not what was recorded")
        if self.snapshot:
            self._check_snapshot(body, *self.snapshot)
        self.wanted.pop(0)

    def _check_snapshot(self, body: bytes, name: str, kind: str, payload: bytes) -> None:
        signed = parse(payload + b"\n")
        is_whole = set(signed) == {"key_id", "schema_version", "signature"}
        need(is_whole, "the snapshot's signature cannot be read")
        version, signature = str(whole(signed["schema_version"])), unhex(signed["signature"], 64)
        parts = [part.encode() for part in (self.ledger, kind, version, name)]
        framed = b"".join(struct.pack(">H", len(part)) + part for part in parts)
        need(name == "sha256:" + sha256(body).hex(), "the snapshot is not named by its content")
        message, keys = b"pointsman/snapshot/1\0" + framed, self.current(self.size)
        self._check_signed(message, signature, signed["key_id"], keys)

    def _check_signed(
        self, message: bytes, signature: bytes, name: object, keys: list[bytes]
    ) -> None:
        signers = [key for key in keys if key_id(key) == name]
        is_signed = any(verifies(key, message, signature) for key in signers)
        need(is_signed, "it is not signed by a key of this ledger")

    def _checkpoint(self, text: object) -> None:
        origin = f"pointsman/{self.ledger}/{self.chain}"
        size, texts = note_parts(origin, text, self.current)
        if self.first:
            peaks = [base64.b64decode(each) for each in texts[2:]]
            ones = bin(size).count("1")  # noqa: FURB161 - Python 3.9
            is_start = size == self.first and len(peaks) == ones
            need(is_start, "the part does not begin at its checkpoint")
            self.head, self.peaks, self.size = base64.b64decode(texts[1]), peaks, size
            self.signed, self.first = size - 1, 0
            self.begun[self.chain] = size
        gone = f"entries {self.size} to {size - 1} were signed and are gone"
        need(size <= self.size, gone, self.size)
        need(size == self.size > self.signed, "the checkpoint is out of place")
        found = [base64.b64encode(each).decode() for each in (self._root(), self.head, *self.peaks)]
        changed = f"entries from here to {size - 1} are not what was signed"
        need(texts == found, changed, self.signed)
        self._check_covered()
        self.signed, self.checkpoints = size, self.checkpoints + 1
        self.roots.setdefault(self.chain, {})[size] = texts[0]

    def _check_covered(self) -> None:
        is_covered = self.size - self.signed <= MAX_UNSIGNED
        need(is_covered, "entries from here on lack the checkpoints they had", self.signed)

    def _end(self, value: dict[str, Any]) -> None:
        is_end = value["end"] == self.chain and whole(value["entries"]) == self.size
        is_end = is_end and unhex(value["head"], 32) == self.head
        need(is_end, "the chain does not end where it ended when exported", self.size)
        self._check_covered()
        self.sizes[self.chain] = self.size
        self.chain = ""

    def _footer(self, value: dict[str, Any]) -> None:
        digest, lines = self.digest.digest(), self.number - 1
        is_same = whole(value["lines"]) == lines and unhex(value["digest"], 32) == digest
        need(is_same, "bytes outside entries were changed, or lines added or removed")
        message = b"pointsman/bundle/1\0" + digest + struct.pack(">Q", lines)
        self._check_signed(message, unhex(value["signature"], 64), value["key"], self.keys[-1:])
        need(not self.lines.read(1), "something follows the end of the bundle")
        self.signer = value["key"]


def note_parts(
    origin: str, text: object, keys_for: Callable[[int], list[bytes]]
) -> tuple[int, list[str]]:
    """Return the size of a checkpoint, and its root, head and peaks; its signature is verified."""
    note = re.fullmatch(NOTE % (origin, origin), text) if isinstance(text, str) else None
    if note is None:
        raise BundleBroken("it is not a checkpoint of this chain")
    signature = base64.b64decode(note[6])
    hashed, short = f"{origin}\n\x01".encode(), signature[:4]
    signers = [key for key in keys_for(int(note[2])) if sha256(hashed + key)[:4] == short]
    is_signed = any(verifies(key, note[1].encode(), signature[4:]) for key in signers)
    # Unused bits at the end of base64 would let two texts mean the same.
    is_exact = base64.b64encode(signature).decode() == note[6]
    need(is_signed and is_exact, "the checkpoint is not signed by a key of this ledger")
    return int(note[2]), [note[3], note[4], *re.findall("peak (.*)", note[5])]


def read_witness(text: str) -> tuple[str, bytes]:
    """Read the key of a witness, as its operator publishes it: its name and its public key."""
    name, _, rest = text.strip().partition("+")
    short, _, encoded = rest.partition("+")
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:
        data = b""
    named = sha256(name.encode() + b"\n" + data)[:4].hex()
    if len(data) != 33 or data[0] != 4 or named != short:
        raise Unusable(f"{text[:60]!a} is not the key of a witness: NAME+ID+KEY")
    return name, data[1:]


def cosigned_trees(note: str, witnesses: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Return the trees that known witnesses cosigned in a note; other signatures are left out."""
    body, _, lines = note.rpartition("\n\n")
    head = (body + "\n").split("\n")
    for line in lines.split("\n"):
        found = re.fullmatch("\u2014 ([^ ]+) ([A-Za-z0-9+/]+=*)", line)
        if found is None or found[1] not in witnesses or len(head) < 4 or not head[1].isdigit():
            continue
        public, data = witnesses[found[1]], base64.b64decode(found[2] + "==")
        named = sha256(found[1].encode() + b"\n\x04" + public)[:4]
        at = int.from_bytes(data[4:12], "big")
        said = f"cosignature/v1\ntime {at}\n{body}\n".encode()
        if data[:4] == named and verifies(public, said, data[12:]):
            yield {"witness": found[1], "origin": head[0], "size": int(head[1]),
                   "root": head[2], "at": at}  # fmt: skip


def compare_witnesses(
    work: Audit, witnesses: dict[str, bytes], quorum: int, seen: list[str]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Tell against whom each range is proven; the fault where a witness saw another history."""
    trees = [tree for note in [*work.notes, *seen] for tree in cosigned_trees(note, witnesses)]
    words: dict[str, dict[str, Any]] = {name: {} for name in work.sizes}
    fault: dict[str, Any] | None = None
    for tree in sorted(trees, key=lambda each: each["size"]):
        begin = f"pointsman/{work.ledger}/"
        name, size = tree["origin"][len(begin) :], tree["size"]
        first, end = work.begun.get(name, 0), work.sizes.get(name, 0)
        # A part of the ledger says nothing of trees before it, nor of those after its end.
        is_outside = work.period and (name not in work.sizes or not first <= size <= end)
        if not tree["origin"].startswith(begin) or is_outside:
            continue
        if work.roots.get(name, {}).get(size) == tree["root"]:
            words[name][tree["witness"]] = (size, tree["at"])
        elif fault is None:
            saw = f"{size} entries, and {end} are here" if size > end else "another history"
            message = f"the witness {tree['witness']} saw {saw}"
            fault = {"chain": name, "seq": min(size, end), "line": work.number, "message": message}
    return [_chain_proof(work, name, words[name], quorum) for name in sorted(words)], fault


def _chain_proof(work: Audit, name: str, words: Any, quorum: int) -> dict[str, Any]:
    sizes = sorted((size for size, _ in words.values()), reverse=True)
    bounds = [
        ("operator_with_key", sizes[quorum - 1] if len(sizes) >= quorum else 0),
        ("operator_without_key", max(work.roots.get(name, {}), default=0)),
        ("outsiders", work.sizes[name]),
    ]
    first, ranges = work.begun.get(name, 0), []
    for against, end in bounds:
        if end > first:
            ranges.append({"first": first, "end": end, "against": against})
            first = end
    told = {witness: {"size": size, "at": at} for witness, (size, at) in sorted(words.items())}
    return {"chain": name, "ranges": ranges, "witnesses": told}


def audit(
    lines: BinaryIO,
    expected: str = "",
    witnesses: Iterable[str] = (),
    quorum: int = 1,
    seen: Iterable[str] = (),
) -> dict[str, Any]:
    """Verify a bundle from a binary file; `expected` is a key id, or empty.

    `witnesses` are keys of witnesses, of which `quorum` must agree; `seen` are notes they gave.
    """
    known = dict(map(read_witness, witnesses))
    work = Audit(lines)
    fault = work.run()
    proofs, differing = compare_witnesses(work, known, quorum, list(seen))
    fault, proofs = (differing, proofs) if fault is None else (fault, [])
    names = [key_id(key) for key in work.keys]
    # A key after a compromised one proves nothing: another hand may have named it.
    first = max((n for n, name in enumerate(names, 1) if name in work.compromised), default=0)
    is_expected = expected in names[first:] if expected and work.signer else None
    if fault is None and is_expected is False:
        message = f"the bundle is signed by {work.signer}, not by {expected}"
        fault = {"chain": "", "seq": None, "line": work.number, "message": message}
    return {
        "is_intact": fault is None, "ledger": work.ledger, "key": work.signer,
        "is_expected_key": is_expected, "chains": work.chains, "entries": work.entries,
        "checkpoints": work.checkpoints, "fault": fault, "period": work.period,
        "keys": names, "compromised": work.compromised, "proofs": proofs,
    }  # fmt: skip


def expected_key(text: str) -> str:
    """Read a key id, or a public key in hex."""
    if re.fullmatch("[0-9a-f]{64}", text):
        return key_id(bytes.fromhex(text))
    if text and not re.fullmatch("ed25519:[0-9a-f]{32}", text):
        raise Unusable("a key is `ed25519:` and 32 hex digits, or 64 hex digits")
    return text


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    """Tell a report in lines of text."""
    fault = report["fault"]
    counts = "{entries} entries in {chains} chains, {checkpoints} checkpoints".format(**report)
    if fault:
        place = f"{fault['chain']}/{fault['seq']}: " if fault["chain"] else ""
        yield f"NOT INTACT: {place}{fault['message']} (line {fault['line']})"
        yield f"read before that: {counts}"
    else:
        yield f"intact: {counts}"
    if report["period"]:
        yield "a part of the ledger: {since} to {until}, from one checkpoint to another".format(
            **report["period"]
        )
    for name, since in report["compromised"].items():
        yield f"{name} was compromised since {since}; the key after it vouches for the record"
    for proof in report["proofs"]:
        for part in proof["ranges"]:
            place = "{chain} {first} to {last}".format(**proof, **part, last=part["end"] - 1)
            yield f"{place}: {PROVEN[part['against']]}"
    if report["key"]:
        follows = "the expected key, or one that follows from it"
        known = {None: UNKNOWN_KEY, True: follows, False: "NOT the expected key"}
        yield f"signed by {report['key']}: {known[report['is_expected_key']]}"


def main(arguments: list[str] | None = None) -> int:
    """Run as a command: exit 0 intact, 1 not intact, 2 unusable input."""
    parser = argparse.ArgumentParser(description="Verify an exported ledger bundle.")
    parser.add_argument("bundle")
    parser.add_argument("--key", default="", help="the key id or public key the owner published")
    parser.add_argument("--witness", action="append", default=[], help="the key of a witness")
    parser.add_argument("--quorum", type=int, default=1, help="how many witnesses must agree")
    parser.add_argument("--seen", action="append", default=[], help="what a witness told: /logs")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    try:
        with Path(options.bundle).open("rb") as lines:
            seen = [str(log["note"]) for name in options.seen
                    for log in json.loads(Path(name).read_text("utf-8"))["logs"]]  # fmt: skip
            key, quorum = expected_key(options.key), max(1, options.quorum)
            report = audit(lines, key, options.witness, quorum, seen)
    except (OSError, ValueError, KeyError, TypeError, Unusable) as error:
        sys.stderr.write(f"cannot verify {options.bundle!a}: {error}\n")
        return 2
    text = json.dumps(report, sort_keys=True) if options.json else "\n".join(report_lines(report))
    sys.stdout.write(text + "\n")
    return 0 if report["is_intact"] else 1


if __name__ == "__main__":
    sys.exit(main())
