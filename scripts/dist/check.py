"""Check what was built: same bytes twice, and it works where nothing else is installed.

Builds two times under unlike conditions and compares every byte. Then installs the wheel into an empty environment,
with the pins and hashes of constraints-run.txt, and runs the demo there; and types the lines of the README for uvx
and pipx, with both tools from the registry of packages.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from build import ROOT, build, epoch_of

OUT = ROOT / "build" / "dist"
README = ROOT / "README.md"
STARTS = ("uvx ", "pipx ")


class CheckFailed(Exception):
    """Something that was built is not what it should be."""


def compare_builds(out: Path) -> list[Path]:
    """Build twice, elsewhere and under other settings; return the files, or say which differ."""
    epoch = epoch_of(ROOT)
    first = build(ROOT, out, epoch)
    with tempfile.TemporaryDirectory() as scratch:
        mask = os.umask(0o077)
        os.environ.update({"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "LC_ALL": "C"})
        time.tzset()
        second = build(ROOT, Path(scratch) / "again", epoch)
        os.umask(mask)
        differing = [
            one.name
            for one, other in zip(first, second, strict=True)
            if one.read_bytes() != other.read_bytes()
        ]
    if differing:
        raise CheckFailed(f"two builds differ: {', '.join(differing)}")
    return first


def install(wheel: Path, folder: Path) -> Path:
    """Make an empty environment and install the wheel there by the pins; return its programs."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps"]
    run([*pip, "--require-hashes", "-r", str(ROOT / "constraints-run.txt")])
    run([*pip, "--no-index", str(wheel)])
    return folder / "bin"


def run(command: list[str], **more: str) -> str:
    """Run a command outside the sources; return what it prints, or fail with it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=tempfile.gettempdir(),
        env={**clean, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CheckFailed(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def readme_lines(wheel: Path) -> list[list[str]]:
    """Return the README's lines for uvx and pipx, with the wheel that was built."""
    lines = (line.strip().partition("#")[0].split() for line in README.read_text().splitlines())
    return [
        [word.replace("build/dist/pointsman-0.1.0-py3-none-any.whl", str(wheel)) for word in words]
        for words in lines
        if words and f"{words[0]} " in STARTS
    ]


def run_demo(command: list[str], folder: Path, **more: str) -> None:
    """Run the demo; its day must replay identically and its ledger be intact."""
    told = run([*command, "--home", str(folder)], **more)
    for promised in ("came out identical, byte for byte", "ledger.entry_changed"):
        if promised not in told:
            raise CheckFailed(f"`{' '.join(command)}` does not say `{promised}`:\n{told}")


def main() -> None:
    """Run each check and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave uvx and pipx out")
    quick: bool = parser.parse_args().quick
    started = time.monotonic()

    def tell(what: str) -> None:
        print(f"ok {time.monotonic() - started:6.1f} s  {what}", flush=True)

    try:
        files = compare_builds(OUT)
        wheel = next(path for path in files if path.suffix == ".whl").absolute()
        tell(f"two builds are equal: {', '.join(path.name for path in files)}")
        with tempfile.TemporaryDirectory() as scratch:
            check_installed(wheel, Path(scratch), tell, is_quick=quick)
    except CheckFailed as failure:
        sys.exit(f"failed: {failure}")


def check_installed(wheel: Path, scratch: Path, tell, *, is_quick: bool) -> None:  # type: ignore[no-untyped-def] # a script
    """Install the wheel in every way the README tells, and run the demo from each."""
    programs = install(wheel, scratch / "empty")
    tell("the wheel installs into an empty environment, by the pins and their hashes")
    run_demo([str(programs / "pointsman"), "demo"], scratch / "demo")
    tell("the demo runs there: its day replays identically")
    if is_quick:
        return
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    run([*pip, "uv", "pipx"])
    homes = {"PIPX_HOME": str(scratch / "pipx"), "PIPX_BIN_DIR": str(scratch / "pipx-bin")}
    path = f"{scratch / 'pipx-bin'}:{programs}:{os.environ['PATH']}"
    for number, words in enumerate(readme_lines(wheel)):
        if words[-1] == "demo":
            run_demo(words, scratch / f"day-{number}", PATH=path, **homes)
        else:
            run(words, PATH=path, **homes)
        tell(" ".join(words))
    run_demo(["pointsman", "demo"], scratch / "day-pipx", PATH=path, **homes)
    tell("pointsman demo, as pipx installed it")


if __name__ == "__main__":
    main()
