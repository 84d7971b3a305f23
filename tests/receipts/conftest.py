"""The receipts of a home in which a few turns were decided."""

from __future__ import annotations

import pytest
from tests.receipts.receipts import Given, made_receipts


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Given]:
    return made_receipts(tmp_path_factory.mktemp("receipts") / "home")
