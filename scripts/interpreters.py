"""List the CPython interpreters of this machine that the product supports, one path a line.

Looks on PATH, in pyenv's and uv's folders; the one running this script is left out.
"""

import os
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def candidates(version: str) -> list[Path]:
    name = f"python{version}"
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    uv = Path("~/.local/share/uv/python").expanduser()
    found = [folder / name for folder in folders]
    found += sorted(pyenv.glob(f"{version}.*/bin/{name}"))
    found += sorted(uv.glob(f"cpython-{version}*/bin/{name}"))
    return [path for path in found if path.is_file()]


def works(path: Path, version: str) -> bool:
    code = (
        "import sys, venv, ensurepip; "
        "print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"
    )
    try:
        done = subprocess.run(
            [path, "-c", code], capture_output=True, text=True, timeout=20, check=False
        )
    except OSError:
        return False
    return done.stdout.split() == ["cpython", version]


def main() -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in SUPPORTED:
        if version == own:
            continue
        for path in candidates(version):
            if works(path, version):
                print(f"{version} {path}")
                break


if __name__ == "__main__":
    main()
