"""Plant faults in copies of the product and have lives find them: `python -m campaigns.planted`.

Each fault has so many lives and so many seconds. Writes `evidence/planted.json`: which were found,
after how many lives, and by which finding; those that were not found are named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from campaigns.evidence import write
from campaigns.planted_faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]
PROCESSES = 2


def plant(fault: Fault, folder: Path) -> None:
    """Copy the product, and change it."""
    ignored = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(ROOT / "src" / "pointsman", folder / "pointsman", ignore=ignored)
    target = folder / "pointsman" / fault.path
    text = target.read_text()
    if text.count(fault.old) != 1:
        raise SystemExit(f"`{fault.name}` no longer fits {fault.path}")
    target.write_text(text.replace(fault.old, fault.new))


def search(fault: Fault, first: int, most: int, seconds: int) -> dict[str, object]:
    """Live lives on a faulty copy until one has a finding."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plant(fault, folder)
        path = os.pathsep.join([str(folder), str(ROOT)])
        seeds = f"{first}-{first + most - 1}"
        command = [sys.executable, "-m", "tests.simulation", "--seeds", seeds, "--stop"]
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        lives, finding = 0, ""
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith('{"seed"'):
                continue
            lives += 1
            told = json.loads(line)["findings"]
            if told:
                finding = told[0][:300]
                break
            if time.monotonic() - began > seconds:
                break
        process.terminate()
        process.stdout.close()
        process.wait()
    took = round(time.monotonic() - began, 1)
    told_result = {"fault": fault.name, "found_by": finding, "lives": lives, "seconds": took}
    print(json.dumps(told_result), flush=True)
    return told_result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--most", type=int, default=100, help="lives for each fault")
    parser.add_argument("--seconds", type=int, default=600, help="at most for each fault")
    parser.add_argument("--only", default="", help="faults whose name holds this")
    asked = parser.parse_args()
    faults = [each for each in FAULTS if asked.only in each.name]
    with ThreadPoolExecutor(PROCESSES) as pool:
        results = [*pool.map(lambda f: search(f, asked.first, asked.most, asked.seconds), faults)]
    missed = [each["fault"] for each in results if not each["found_by"]]
    found: dict[str, object] = {
        "what": "faults planted in a copy of the product, and whether simulated lives found them",
        "planted": len(results), "found": len(results) - len(missed), "missed": missed,
        "lives_each_at_most": asked.most, "seconds_each_at_most": asked.seconds,
        "results": results,
    }  # fmt: skip
    if not asked.only:
        print(write("planted", found))
    print(f"{len(results) - len(missed)} of {len(results)} found; missed: {missed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
