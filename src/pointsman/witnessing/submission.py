"""Submitting checkpoints to one witness, and asking for the trees it has seen.

A witness is asked to go on from the tree it cosigned last; where this process does not know that
tree, the witness says its size, and the checkpoint of that size has the frontier for the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.checkpoint import Checkpoint
from pointsman.kernel.consistency import consistency_proof
from pointsman.kernel.cosignature import CosignRequest, read_cosigned, write_request
from pointsman.kernel.merkle import Frontier
from pointsman.kernel.schema import conform
from pointsman.kernel.verification import HASH_SIZE
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.policies.witness_settings import Witness, WitnessSettings, witness_problems
from pointsman.witnessing.exchange import Unreachable, exchange
from pointsman.witnessing.witness import TEXT, WitnessView

TroubleCode = Literal["unreachable", "unknown_log", "not_signed", "refused", "broken_answer"]

REFUSED_CODE: Final = "refused"
"""The one trouble that speaks against the ledger: it did not grow from the tree seen before."""


class WitnessFailed(Exception):
    """Why a witness did not cosign."""

    def __init__(self, code: TroubleCode, message: str) -> None:
        super().__init__(message)
        self.code: TroubleCode = code
        self.message = message


class LogSource(Struct, frozen=True):
    """Where the proofs of one chain come from: its checkpoints by size, and its leaves."""

    find: Callable[[int], Checkpoint | None]
    leaves: Callable[[int, int], bytes]


class WitnessClient:
    """Submits to one witness; for one thread."""

    def __init__(self, witness: Witness, timeout_s: float) -> None:
        self.key = witness.note_key
        self.name = self.key.name
        self._url = witness.url.rstrip("/")
        self._timeout_s = timeout_s
        self._seen: dict[str, Checkpoint] = {}

    def submit(self, origin: str, checkpoint: Checkpoint, source: LogSource) -> str:
        """Have a checkpoint cosigned; return the verified signature lines, or raise."""
        for _ in range(3):
            seen = self._seen.get(origin)
            old = Frontier() if seen is None else seen.frontier
            proof = _proof(old, checkpoint, source)
            request = CosignRequest(old.size, tuple(proof), checkpoint.text)
            status, body = self._post(write_request(request))
            if status == 200:
                lines = self._verified_lines(checkpoint, body)
                self._seen[origin] = checkpoint
                return lines
            if status != 409:
                raise _failure(status, body)
            known = self._catch_up(old.size, checkpoint, body, source)
            if known is None:
                del self._seen[origin]
            else:
                self._seen[origin] = known
        raise WitnessFailed("unreachable", "it moved on each time it was asked")

    def ask(self, prefix: str) -> WitnessView:
        """Ask for the trees the witness has seen of the logs whose origin begins like this."""
        url = f"{self._url}/logs?prefix={quote(prefix, safe='')}"
        try:
            status, body = exchange(url, None, "", self._timeout_s)
        except Unreachable as error:
            raise WitnessFailed("unreachable", str(error)) from error
        if status != 200:
            raise WitnessFailed("broken_answer", f"it answers {status} when asked for its logs")
        try:
            return msgspec.json.decode(body, type=WitnessView)
        except msgspec.MsgspecError as error:
            raise WitnessFailed("broken_answer", f"its logs cannot be read: {error}") from error

    def _post(self, data: bytes) -> tuple[int, bytes]:
        try:
            return exchange(f"{self._url}/add-checkpoint", data, TEXT, self._timeout_s, 1 << 16)
        except Unreachable as error:
            raise WitnessFailed("unreachable", str(error)) from error

    def _verified_lines(self, checkpoint: Checkpoint, body: bytes) -> str:
        """Return the witness's own lines of an answer; those of others are left out."""
        try:
            lines = body.decode()
            own = "".join(
                line for line in lines.splitlines(keepends=True) if f" {self.name} " in line
            )
            _, found = read_cosigned(f"{checkpoint.text}{own}", [self.key])
        except ValueError as error:
            raise WitnessFailed("broken_answer", "its answer cannot be read") from error
        if not found:
            raise WitnessFailed("broken_answer", "its answer is not signed by its key")
        return own

    def _catch_up(
        self, old: int, checkpoint: Checkpoint, body: bytes, source: LogSource
    ) -> Checkpoint | None:
        """Return the checkpoint that the witness goes on from; none where it knows nothing yet."""
        text = body.decode(errors="replace").strip()
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise WitnessFailed("broken_answer", "it does not say which size it saw last")
        size = int(text)
        if size > checkpoint.size:
            message = f"it has seen {size} entries, and here are {checkpoint.size}"
            raise WitnessFailed("refused", message)
        if size == 0 < old:
            return None
        found = source.find(size)
        if size == old or found is None:
            raise WitnessFailed("refused", f"it has seen another tree of {size} entries")
        return found


def _proof(old: Frontier, checkpoint: Checkpoint, source: LogSource) -> list[bytes]:
    if old.size == 0:
        return []
    data = source.leaves(old.size, checkpoint.size)
    leaves = [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]
    if len(leaves) != checkpoint.size - old.size:
        raise WitnessFailed("broken_answer", "the hashes beside the checkpoints are not all there")
    return consistency_proof(old, leaves)


def _failure(status: int, body: bytes) -> WitnessFailed:
    told = body.decode(errors="replace").strip()[:200]
    if status == 404:
        return WitnessFailed("unknown_log", told or "it does not know this log")
    if status == 403:
        return WitnessFailed("not_signed", told or "it knows another key of this log")
    if status == 422:
        return WitnessFailed("refused", told or "the proof does not hold")
    code: TroubleCode = "unreachable" if status >= 500 else "broken_answer"
    return WitnessFailed(code, f"it answers {status}: {told}")


class WitnessAnswers(Struct, frozen=True):
    """The notes that witnesses gave, and the witnesses that gave none, with the cause."""

    notes: tuple[str, ...]
    silent: dict[str, str]


def ask_witnesses(settings: WitnessSettings, ledger: str) -> WitnessAnswers:
    """Ask every witness for the trees it cosigned of a ledger; their signatures are not checked."""
    notes: list[str] = []
    silent: dict[str, str] = {}
    for each in settings.of:
        client = WitnessClient(each, settings.timeout_s)
        try:
            notes += [log.note for log in client.ask(f"pointsman/{ledger}/").logs]
        except WitnessFailed as failed:
            silent[client.name] = failed.message
    return WitnessAnswers(tuple(notes), silent)


def read_view(data: bytes, source: str) -> tuple[str, ...]:
    """Read the saved answer of a witness's `/logs`; return its notes."""
    try:
        view = msgspec.json.decode(data, type=WitnessView)
    except msgspec.MsgspecError as error:
        raise InputError(
            f"this is not what a witness tells of its logs: {error}",
            where=source,
            hint="save it with `curl URL/logs?prefix=pointsman/LEDGER/`",
        ) from error
    return tuple(log.note for log in view.logs)


def read_witnesses(path: Path) -> WitnessSettings:
    """Read a verifier's own list of witnesses: a file like the section `witnesses:`."""
    try:
        document = parse_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return conform(document, WitnessSettings, witness_problems)
