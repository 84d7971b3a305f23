"""Build the wheel, the source archive, their bill of materials and their digests, the same bytes each time.

What is built comes from the files that git knows, copied to a folder of its own: nothing else that lies about gets
in. The wheel is built from the unpacked source archive, so the archive is known to be whole. The times inside are
SOURCE_DATE_EPOCH, or that of the last commit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from bill_of_materials import bill_of_materials, to_json

ROOT = Path(__file__).parents[2]
ZIP_STARTS = 315532800
"""1980-01-01: a wheel is a zip file, which knows no earlier time."""


def epoch_of(root: Path) -> int:
    """Return the time that stands in the built files, in seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given:
        return max(int(given), ZIP_STARTS)
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else ZIP_STARTS


def copy_sources(root: Path, to: Path) -> None:
    """Copy the files that git knows; of an unpacked archive, which is no repository, all files."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--deduplicate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.copytree(root, to, ignore=shutil.ignore_patterns("build", "dist", ".venv*"))
        return
    for name in done.stdout.split("\0"):
        if name and (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, to / name)


def run_backend(folder: Path, target: str, out: Path, epoch: int) -> Path:
    """Run the build backend in a folder; return the file it made."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{target}: {done.stdout}{done.stderr}")
    (made,) = out.glob("*.tar.gz" if target == "sdist" else "*.whl")
    return made


def build(root: Path, out: Path, epoch: int) -> list[Path]:
    """Build everything into an empty folder; return the files, the digests last."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources"
        copy_sources(root, sources)
        archive = run_backend(sources, "sdist", out.absolute(), epoch)
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        unpacked = Path(scratch) / archive.name.removesuffix(".tar.gz")
        wheel = run_backend(unpacked, "wheel", out.absolute(), epoch)
        bill = out / f"{wheel.name.split('-py3')[0]}.cdx.json"
        bill.write_text(to_json(bill_of_materials(sources, wheel.read_bytes(), epoch)))
    digests = out / "SHA256SUMS"
    built = sorted([archive, wheel, bill])
    digests.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in built))
    return [*built, digests]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Build into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "dist")
    out = parser.parse_args().out
    for path in build(ROOT, out, epoch_of(ROOT)):
        print(path)


if __name__ == "__main__":
    main()
