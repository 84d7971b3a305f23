"""Change every bit of a bundle and every column of a database; write down what was missed.

`python campaigns/tamper.py [--seconds N]` takes some minutes on two cores. The verdicts come from
the offline verifier and from `verify_ledger`. For a bundle, the verifier's state before the
changed line is computed once and copied, since the lines before it are the same.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import multiprocessing
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import apsw

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tamper"))

from small_ledger import make_bundle_home  # noqa: E402 - needs the path above

from pointsman.audit.export import export_bundle  # noqa: E402
from pointsman.audit.verify import verify_ledger  # noqa: E402
from pointsman.offline_verifier import Audit, Unusable, audit  # noqa: E402
from pointsman.storage.home import Home  # noqa: E402

CHUNK = 64
COLUMNS = {
    "meta": {"key": "key || 'x'", "value": "value || '0'"},
    "chains": {"id": "id + 50", "name": "name || 'x'"},
    "entries": {
        "chain": "99", "seq": "seq + 1000000", "at_us": "at_us + 1", "kind": "kind || 'x'",
        "id": "id || 'x'", "ref": "ref || 'x'", "payload": "CAST(payload || 'x' AS BLOB)",
        "attached": "zeroblob(32 + length(attached))", "prev": "zeroblob(32)",
        "hash": "zeroblob(32)",
    },
    "attachments": {
        "chain": "99", "seq": "seq + 1000", "place": "place + 10",
        "body": "CAST(body || 'x' AS BLOB)",
    },
}  # fmt: skip


class Bundle:
    """The untouched bundle and the verifier's state before each of its lines."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.states: list[Audit | None] = []
        self.starts: list[int] = []
        self.entries: list[tuple[str, int] | None] = []
        self.line_of: list[int] = []
        self._walk()

    def _walk(self) -> None:
        work, start = Audit(io.BytesIO(self.data)), 0
        for number, line in enumerate(self.data.splitlines(keepends=True)):
            self.starts.append(start)
            self.line_of += [number] * len(line)
            self.states.append(frozen(work) if number else None)
            value = json.loads(line)
            self.entries.append((work.chain, value["seq"]) if "seq" in value else None)
            assert work._next_line() == line
            if number:
                work._take(line)
            else:
                work._header(line)
            start += len(line)

    def fault(self, changed: bytes, line: int) -> dict[str, object] | None:
        """Verify a bundle that is untouched before a line; no bundle counts as found."""
        state = self.states[line]
        if state is None:
            try:
                return audit(io.BytesIO(changed))["fault"]
            except Unusable:
                return {"chain": "", "seq": None}
        work = frozen(state)
        work.lines = io.BytesIO(changed[self.starts[line] :])
        return work.rest()


def frozen(work: Audit) -> Audit:
    """Copy a verifier as it stands."""
    same = copy.copy(work)
    same.digest, same.peaks, same.wanted = work.digest.copy(), work.peaks[:], work.wanted[:]
    return same


STATE: dict[str, Bundle] = {}


def begin(data: bytes) -> None:
    STATE["bundle"] = Bundle(data)


def damage_byte(data: bytes, at: int) -> list[tuple[str, bytes]]:
    """Return every damage of one byte, by name."""
    byte, before, after = data[at], data[:at], data[at + 1 :]
    found = [("bit_flips", before + bytes([byte ^ 1 << bit]) + after) for bit in range(8)]
    for name, new in (("bytes_set_to_00", 0), ("bytes_set_to_ff", 255)):
        found.append((name, before + bytes([new]) + after))
    found.append(("truncations", before))
    found.append(("bytes_deleted", before + after))
    found.append(("bytes_inserted", before + b"x" + data[at:]))
    return found


def attack(positions: list[int]) -> tuple[Counter[str], Counter[str], list[str]]:
    """Damage the bundle at each position; count the tries, and those named exactly."""
    bundle, tried, named, missed = STATE["bundle"], Counter[str](), Counter[str](), []
    for at in positions:
        line = bundle.line_of[at]
        for name, changed in damage_byte(bundle.data, at):
            if changed == bundle.data:
                continue
            tried[name] += 1
            fault = bundle.fault(changed, line)
            if fault is None:
                missed.append(f"{name} at {at}")
            elif name == "bit_flips" and bundle.entries[line]:
                tried["bit_flips_in_entries"] += 1
                named["bit_flips"] += (fault["chain"], fault["seq"]) == bundle.entries[line]
    return tried, named, missed


def is_shortcut_true(data: bytes, samples: int) -> bool:
    """Compare the copied state with a run from the first byte on."""
    bundle = Bundle(data)
    random_ = random.Random(0)
    for bit in random_.sample(range(len(data) * 8), samples):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        if bundle.line_of[bit // 8] == 0:
            continue
        whole = audit(io.BytesIO(bytes(changed)))["fault"]
        short = bundle.fault(bytes(changed), bundle.line_of[bit // 8])
        if whole is None or short is None or whole != short:
            return False
    return True


def attack_row(job: tuple[str, str, str, int, str]) -> tuple[str, bool, bool]:
    """Edit one column of one row in a copy of the home; tell whether it was found and named."""
    path, table, column, row, place = job
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(shutil.copytree(path, Path(folder) / "home")))
        connection = apsw.Connection(str(home.database))
        key = "key" if table == "meta" else "rowid"
        value = "ledger" if table == "meta" else row
        edit = f"UPDATE {table} SET {column} = {COLUMNS[table][column]} WHERE {key} = ?"
        connection.execute(edit, (value,))
        connection.close()
        fault = verify_ledger(home).fault
    is_named = fault is not None and f"{fault.chain}/{fault.seq}" == place
    return f"{table}.{column}", fault is not None, is_named


def row_jobs(home: Home) -> list[tuple[str, str, str, int, str]]:
    """List every column of every row, with the entry that has to be named."""
    connection = apsw.Connection(str(home.database))
    named = "SELECT t.rowid, c.name || '/' || t.seq FROM {} AS t JOIN chains AS c ON c.id = t.chain"
    rows = {
        "meta": [(0, "")],
        "chains": [(row[0], "") for row in connection.execute("SELECT id FROM chains")],
        "entries": list(connection.execute(named.format("entries"))),
        "attachments": list(connection.execute(named.format("attachments"))),
    }
    connection.close()
    return [
        (str(home.path), table, column, row, place)
        for table, columns in COLUMNS.items()
        for row, place in rows[table]
        for column in columns
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long; 0: never")
    parser.add_argument("--out", type=Path, default=ROOT / "evidence" / "tamper.json")
    options = parser.parse_args()
    began = time.monotonic()
    deadline = began + options.seconds if options.seconds else None
    with tempfile.TemporaryDirectory() as folder:
        home = make_bundle_home(Path(folder) / "home")
        data = export_bundle(home, Path(folder) / "bundle").path.read_bytes()
        assert audit(io.BytesIO(data))["is_intact"]
        assert is_shortcut_true(data, 500)
        report = run(data, home, deadline)
    report["seconds"] = round(time.monotonic() - began, 1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    print(json.dumps(report, indent=2, sort_keys=True))
    return 1 if report["missed"] else 0


def run(data: bytes, home: Home, deadline: float | None) -> dict[str, object]:
    """Do everything, in as many processes as there are cores, until the deadline."""
    tried, named, missed = Counter[str](), Counter[str](), []
    positions = list(range(len(data)))
    random.Random(0).shuffle(positions)
    chunks = [positions[at : at + CHUNK] for at in range(0, len(positions), CHUNK)]
    jobs = row_jobs(home)
    is_complete = True
    with multiprocessing.Pool(initializer=begin, initargs=(data,)) as pool:
        for name, is_found, is_named in pool.imap_unordered(attack_row, jobs, 8):
            tried["column_edits"] += 1
            if name.startswith(("entries.", "attachments.")):
                tried["column_edits_of_entries"] += 1
                named["column_edits"] += is_named
            if not is_found:
                missed.append(name)
        print(f"{len(jobs)} column edits, {len(missed)} missed", flush=True)
        for done, result in enumerate(pool.imap_unordered(attack, chunks), 1):
            tried, named = tried + result[0], named + result[1]
            missed += result[2]
            if done % 50 == 0:
                print(f"{done} of {len(chunks)} parts, {len(missed)} missed", flush=True)
            if deadline and time.monotonic() > deadline:
                is_complete = done == len(chunks)
                pool.terminate()
                break
    return {
        "bundle_bytes": len(data), "counts": dict(tried), "named_exactly": dict(named),
        "missed": missed, "is_complete": is_complete, "python": platform.python_version(),
        "commit": commit(),
    }  # fmt: skip


def commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
