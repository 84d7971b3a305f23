"""Run the tests of a change at hand, within a minute: `make quick`, or with BASE=<revision>.

A changed test is run; of a changed module of src, the test files that import it or anything of its
folder, nearest first. Tests marked slow wait for `make test`. Files are taken in that order while
the minute lasts; what was left out is said.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 60
FEW_S = 5
"""No further file is begun with less time than this."""
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(pointsman[\w.]*)(?:\s+import\s+(.+))?", re.MULTILINE)


def changed_files(base: str) -> list[str]:
    """Name the files that differ from a revision, those that are new included."""
    commands = (
        ["git", "diff", "--name-only", "--diff-filter=d", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    found: list[str] = []
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found += done.stdout.split()
    return list(dict.fromkeys(found))


def module_of(path: str) -> str:
    """Return the dotted name of a module of src."""
    parts = Path(path).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(text: str) -> set[str]:
    """Return the modules that a test file imports, with the names it takes from them."""
    found: set[str] = set()
    for module, names in _IMPORT.findall(text):
        found.add(module)
        found.update(f"{module}.{each}" for each in re.findall(r"\w+", names))
    return found


def rank(modules: Iterable[str], imported: set[str]) -> int | None:
    """Return how near a test is to changed modules: 0 imports one, 1 its folder; None is far."""
    nearest: int | None = None
    for module in modules:
        if module in imported:
            return 0
        folder = module.rpartition(".")[0]
        if folder.count(".") and any(each.startswith(f"{folder}.") for each in imported):
            nearest = 1
    return nearest


def choose_tests(changed: Iterable[str], tests: dict[str, str]) -> list[str]:
    """Return the test files of a change, the nearest first."""
    paths = [*changed]
    modules = [
        module_of(path) for path in paths if path.startswith("src/") and path.endswith(".py")
    ]
    stems = {Path(path).stem for path in paths if path.startswith("src/")}
    ranks: dict[str, int] = {}
    for path, text in tests.items():
        near = rank(modules, imported_by(text))
        is_named = any(Path(path).stem == f"test_{stem}" for stem in stems)
        if path in paths:
            ranks[path] = -2
        elif is_named:
            ranks[path] = -1
        elif near is not None:
            ranks[path] = near
    return sorted(ranks, key=lambda path: (ranks[path], _cost(path), path))


def _cost(path: str) -> int:
    """Put unit tests before those that start servers."""
    order = ("tests/unit", "tests/property", "tests/cases", "tests/contract")
    return next((at for at, each in enumerate(order) if path.startswith(each)), len(order))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="HEAD")
    parser.add_argument("--list", action="store_true", help="name the tests, and run none")
    asked = parser.parse_args()
    paths = sorted(ROOT.glob("tests/**/test_*.py"))
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    chosen = choose_tests(changed_files(asked.base), tests)
    if asked.list or not chosen:
        print("\n".join(chosen) or "no test belongs to what changed")
        return 0
    return _run(chosen)


def _run(chosen: list[str]) -> int:
    ends, code, run = time.monotonic() + LIMIT_S, 0, 0
    while run < len(chosen) and (left := ends - time.monotonic()) > FEW_S:
        # A few files share the start of an interpreter.
        some = chosen[run : run + 6]
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *some]
        try:
            done = subprocess.run(command, cwd=ROOT, check=False, timeout=left)
        except subprocess.TimeoutExpired:
            break
        run += len(some)
        if done.returncode not in (0, 5):
            code = done.returncode
            break
    if code == 0 and run < len(chosen):
        print(f"\nthe minute is over; {len(chosen) - run} files wait for `make test`:")
        print("\n".join(f"  {each}" for each in chosen[run:][:20]))
    return code


if __name__ == "__main__":
    sys.exit(main())
