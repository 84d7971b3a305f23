"""Keys: read when needed, checked, never shown."""

import copy
import os
import pickle

import pytest

from pointsman.providers.credentials import Credential, credential_id
from pointsman.providers.port import NotConfigured
from pointsman.providers.secret import Secret
from pointsman.turns.registry.login import SecretRef


def test_a_key_of_the_environment_is_read_at_every_call(monkeypatch, tmp_path):
    credential = Credential(SecretRef(env="SOME_KEY"), tmp_path)
    monkeypatch.setenv("SOME_KEY", "one")
    assert credential.secret().reveal() == "one"
    monkeypatch.setenv("SOME_KEY", "two\n")
    assert credential.secret().reveal() == "two"


def test_a_key_of_a_file_is_read_again_when_the_file_changes(tmp_path):
    path = tmp_path / "key"
    path.write_text("one\r\n")
    credential = Credential(SecretRef(file="key"), tmp_path)
    first = credential.secret()
    assert first.reveal() == "one"
    assert credential.secret() is first
    path.write_text("three")
    os.utime(path, ns=(1, 1))
    assert credential.secret().reveal() == "three"


@pytest.mark.parametrize(
    "text", ["", "\n", "a b", "a\nb", "a\r\nx-evil: 1", "a\x00", "schlüssel", "a\x7f", "\u2028x"]
)
def test_what_cannot_be_a_key_is_refused_without_being_shown(text, tmp_path):
    (tmp_path / "key").write_text(text)
    credential = Credential(SecretRef(file="key"), tmp_path)
    with pytest.raises(NotConfigured, match="`file key`") as caught:
        credential.secret()
    assert caught.value.error_class == "auth"
    assert caught.value.credential == credential.id
    assert not text.strip() or text not in str(caught.value)


def test_a_missing_key_is_not_configured(monkeypatch, tmp_path):
    monkeypatch.delenv("SOME_KEY", raising=False)
    for ref in (SecretRef(env="SOME_KEY"), SecretRef(file="nowhere"), SecretRef(file=".")):
        with pytest.raises(NotConfigured):
            Credential(ref, tmp_path).secret()
    (tmp_path / "big").write_text("x" * 20_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("big", "binary"):
        with pytest.raises(NotConfigured):
            Credential(SecretRef(file=name), tmp_path).secret()


def test_an_id_comes_from_where_a_key_is_found(monkeypatch, tmp_path):
    ref = SecretRef(env="SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "one")
    before = Credential(ref, tmp_path).id
    monkeypatch.setenv("SOME_KEY", "two")
    assert Credential(ref, tmp_path).id == before == credential_id(ref)
    assert len(before) == 8
    assert before != credential_id(SecretRef(file="SOME_KEY"))


def test_a_secret_shows_itself_nowhere():
    secret = Secret("sk-canary")
    assert "canary" not in f"{secret!r} {secret!s} {[secret]}"
    for take in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            take(secret)
    assert secret.redact(b"bad key sk-canary!") == b"bad key [redacted]!"
