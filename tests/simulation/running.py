"""Lives each of their own process: a life is forked from one that has everything loaded."""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.simulation.ambient import real_flock
from tests.simulation.oracles import check_life, ledger_digest
from tests.simulation.script import Script, draw_script
from tests.simulation.shrinking import shrink
from tests.simulation.world import run_life

MEMORY = Path("/dev/shm")


def live(script: Script, folder: Path) -> dict[str, Any]:
    """Live one life in this process, and tell of it."""
    gc.disable()
    world = run_life(script, folder, check_life)
    digest = ""
    try:
        digest = ledger_digest(world)
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        world.find(f"the ledger cannot be read: {traceback.format_exc()}")
    return {
        "seed": script["seed"],
        "findings": world.findings,
        "digest": digest,
        "turns": len(world.turns),
        "virtual_s": round(world.scheduler.now_ns / 1e9, 3),
        "switches": world.scheduler.turns,
        "counts": dict(sorted(world.counts.items())),
    }


def live_apart(script: Script, timeout_s: int = 120) -> dict[str, Any]:
    """Live one life in a process forked for it."""
    # A path is part of what is recorded, where a file is broken: that of a seed is always the same.
    parent = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
    folder = parent / f"pointsman-life-{os.getuid()}-{script['seed']}"
    with Path(f"{folder}.lock").open("w") as lock:
        real_flock(lock.fileno(), fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            return _live_in(script, folder, timeout_s)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _live_in(script: Script, folder: Path, timeout_s: int) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(timeout_s)
        try:
            told = live(script, folder)
        except BaseException:  # noqa: BLE001 - the outermost edge of a process
            told = {"seed": script["seed"], "findings": [f"broke: {traceback.format_exc()}"]}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(told))
            pipe.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        return {"seed": script["seed"], "findings": ["the life hung or crashed"]}
    result: dict[str, Any] = json.loads(text)
    return result


def kind_of(finding: str) -> str:
    """Return what a finding has in common with others of its kind."""
    return re.sub(r"\d+", "#", finding.partition(":")[0])[:80]


def make_short(script: Script, finding: str) -> Script:
    """Shrink a failing life to what this finding needs."""
    kind = kind_of(finding)

    def fails(candidate: Script) -> bool:
        return any(kind_of(each) == kind for each in live_apart(candidate)["findings"])

    return shrink(script, fails)


def _tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1-5")
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--script", nargs="+", help="files with a life each")
    parser.add_argument("--here", action="store_true", help="in this process, to debug")
    parser.add_argument("--shrink", action="store_true", help="make failing lives short")
    parser.add_argument("--stop", action="store_true", help="end with the first finding")
    asked = parser.parse_args()
    if asked.script:
        scripts = [json.loads(Path(each).read_text()) for each in asked.script]
    else:
        first, _, last = asked.seeds.partition("-")
        scripts = [
            draw_script(seed, asked.length) for seed in range(int(first), int(last or first) + 1)
        ]
    for script in scripts:
        if asked.here:
            told = live(script, Path(tempfile.mkdtemp(prefix="life-", dir=MEMORY)))
        else:
            told = live_apart(script)
        _tell(told)
        if asked.stop and told["findings"]:
            break
        for finding in told["findings"] if asked.shrink else ():
            _tell({"finding": finding, **make_short(script, finding)})
    sys.stdout.flush()
    os._exit(0)
