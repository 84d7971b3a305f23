import hashlib
import sys

import pytest
from click.testing import CliRunner

from pointsman.cli import local as command
from pointsman.cli.main import main
from pointsman.providers.embedded import weights

CONTENT = b"GGUF" + b"weights" * 100


@pytest.fixture(autouse=True)
def small_file(tmp_path, monkeypatch):
    monkeypatch.setenv("POINTSMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(weights, "FILE_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(weights, "FILE_BYTES", len(CONTENT))
    monkeypatch.setattr(weights, "PACKAGE", "no-such-package")


def run(*words):
    return CliRunner().invoke(main, ["local", *words])


def test_a_given_file_is_installed_and_then_found(tmp_path):
    (tmp_path / "m.gguf").write_bytes(CONTENT)
    done = run("install", "--from", str(tmp_path / "m.gguf"))
    assert done.exit_code == 0, done.output
    assert "installed" in done.output
    assert "in place" in run("install").output
    assert "source   installed" in run("status").output


def test_a_file_with_another_digest_is_one_clear_error(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF other")
    done = run("install", "--from", str(tmp_path / "m.gguf"))
    assert done.exit_code == 2
    assert done.output.count("error:") == 1
    assert "sha-256" in done.output


def test_without_a_network_there_is_one_clear_error_and_a_way_on(monkeypatch):
    for name in [each for each in __import__("os").environ if each.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    done = run("install")
    assert done.exit_code == 2
    assert done.output.count("error:") == 1
    assert "cannot be fetched" in done.output
    assert "--from FILE" in done.output


def test_without_pip_the_way_on_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pip", None)
    done = run("install")
    assert done.exit_code == 2
    assert "pip is not here" in done.output


def test_status_tells_what_is_missing(monkeypatch):
    monkeypatch.setattr(command, "ENGINE", "no-such-engine")
    done = run("status")
    assert done.exit_code == 1
    assert "weights  none" in done.output
    assert "pointsman local install" in done.output
    assert "pip install no-such-engine" in done.output
