"""The same decisions, byte for byte, whatever runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).with_name("decide_corpus.py")
PINNED = "540 "

PYTHONS = [Path(sys.executable), *sorted(ROOT.glob(".venv-3.*/bin/python"))]


def _digest(python: Path, *flags: str, **environment: str) -> str:
    done = subprocess.run(
        [python, *flags, CORPUS],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    return done.stdout


@pytest.fixture(scope="module")
def here() -> str:
    return _digest(Path(sys.executable))


@pytest.mark.slow
@pytest.mark.req(1, 100)
@pytest.mark.parametrize("seed", ["0", "1", "2", "12345", "4294967295"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_decisions_are_byte_equal_under_every_python_and_hash_seed(
    here: str, python: Path, seed: str
) -> None:
    assert _digest(python, PYTHONHASHSEED=seed) == here


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "TZ": "Pacific/Apia"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"},
        {"PYTHONUTF8": "0", "LC_ALL": "POSIX"},
        {"PYTHONOPTIMIZE": "2"},
    ],
    ids=str,
)
def test_decisions_are_byte_equal_under_every_locale_zone_and_optimisation(
    here: str, environment: dict[str, str]
) -> None:
    assert _digest(Path(sys.executable), **environment) == here


def test_the_digest_of_the_corpus_is_pinned(here: str) -> None:
    assert here == (Path(__file__).with_name("corpus_digest.txt")).read_text()
