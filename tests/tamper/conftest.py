import shutil
import sys
from pathlib import Path

import pytest

from pointsman.audit.export import export_bundle
from pointsman.storage.home import Home

# `importlib` mode puts no test folder on the path; the campaign shares this module.
sys.path.insert(0, str(Path(__file__).parent))
from small_ledger import make_bundle_home, make_home


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A ledger with three chains and 642 entries; tests read it and damage copies."""
    return make_home(tmp_path_factory.mktemp("ledger") / "home")


@pytest.fixture
def home(original, tmp_path):
    """A copy of the ledger to damage."""
    shutil.copytree(original.path, tmp_path / "home")
    return Home(tmp_path / "home")


@pytest.fixture(scope="session")
def bundle_home(tmp_path_factory):
    return make_bundle_home(tmp_path_factory.mktemp("exported") / "home")


@pytest.fixture(scope="session")
def bundle(bundle_home, tmp_path_factory):
    """The bytes of a bundle of about 60 kB."""
    return export_bundle(bundle_home, tmp_path_factory.mktemp("bundle") / "b").path.read_bytes()
