"""Run all tests side by side; the few that fail there are run once more, each one alone.

Real servers, browsers, terminals and kills share the machine's cores: one test in thousands may
miss its moment. What fails alone, too, fails the run, and so do more failures than a few. A test
that needed its second run is named in the end: it is unsteady, and somebody should mend it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MOST = 5
TESTS_FAILED = 1
FAILED = Path("build") / "failed-tests.json"


def run(*words: str) -> int:
    # Not by a signal's number: a killed run is a failed one.
    environment = {**os.environ, "POINTSMAN_FAILED_TESTS": str(FAILED.absolute())}
    command = [sys.executable, "-m", "pytest", "-q", *words]
    return abs(subprocess.run(command, env=environment, check=False).returncode)


def main() -> int:
    FAILED.parent.mkdir(exist_ok=True)
    FAILED.unlink(missing_ok=True)
    code = run("-n", "2", *sys.argv[1:])
    if code != TESTS_FAILED or not FAILED.exists():
        return code
    failed: list[str] = json.loads(FAILED.read_text())
    if not 0 < len(failed) <= MOST:
        return code
    print(
        f"\n{len(failed)} failed beside others; once more, alone:", *failed, sep="\n  ", flush=True
    )
    for each in failed:
        if code := run("-n", "0", each):
            return code
    print("\nUNSTEADY, passed alone:", *failed, sep="\n  ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
