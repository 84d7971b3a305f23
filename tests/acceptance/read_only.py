"""A folder that takes no writes, and commands run on it in one process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'

RUN = """
import json, sys
from click.testing import CliRunner
from pointsman.cli.main import main
home, commands = sys.argv[1], json.loads(sys.argv[2])
done = [CliRunner().invoke(main, [*words, "--home", home]) for words in commands]
print(json.dumps([(each.exit_code, each.output, repr(each.exception)) for each in done]))
"""


def run_denied(home: Path, denied: Path, *words: str) -> Any:
    """Run a command where the system denies a file: exit code, output and exception."""
    run = [sys.executable, "-c", RUN, str(home), json.dumps([words])]
    if os.getuid() == 0:
        run = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *run]
    denied.chmod(0)
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)[0]


def run_read_only(home: Path, *commands: str) -> list[Any]:
    """Run commands on a home that takes no writes: exit code, output and exception of each."""
    words = [sys.executable, "-c", RUN, str(home), json.dumps([each.split() for each in commands])]
    if os.getuid() == 0:  # the modes of files do not stop root; a mount of its own does
        words = ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(home), *words]
    else:
        for folder in (home, *(each for each in home.rglob("*") if each.is_dir())):
            folder.chmod(0o500)
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    finally:
        if os.getuid():
            for folder in (home, *(each for each in home.rglob("*") if each.is_dir())):
                folder.chmod(0o700)
    return json.loads(done.stdout)
