"""A receipt in a DSSE envelope, with securesystemslib as the reader."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from pathlib import Path

import pytest
from click.testing import CliRunner
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from pointsman.cli.main import main
from pointsman.storage.home import open_home


def run(home: Path, *arguments: str) -> bytes:
    done = CliRunner().invoke(main, ["--home", str(home), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout_bytes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    run(tmp_path / "home", "route", "hello")
    return tmp_path / "home"


def read_envelope(value: dict[str, object]) -> Envelope:
    # The library takes the parts out of the value it is given.
    return Envelope.from_dict(deepcopy(value))


def key_of(home: Path) -> SSlibKey:
    key = open_home(home).keys[-1]
    return SSlibKey(key.id, "ed25519", "ed25519", {"public": key.public.hex()})


@pytest.mark.parametrize("disclose", ["full", "redacted", "minimal"])
def test_another_library_verifies_the_envelope(home: Path, disclose: str) -> None:
    plain = run(home, "receipt", "--disclose", disclose)
    value = json.loads(run(home, "receipt", "--disclose", disclose, "--dsse"))
    envelope = read_envelope(value)
    key = key_of(home)
    assert {*envelope.verify([key], 1)} == {key.keyid}
    assert envelope.payload_type == "application/vnd.in-toto+json"
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicate"] == json.loads(plain)
    assert plain.strip() in envelope.payload, "byte for byte"
    (subject,) = statement["subject"]
    entry = statement["predicate"]["entries"][0]
    assert subject["digest"] == {"sha256": entry["hash"]}
    assert subject["name"].endswith(f"/{entry['chain']}/{entry['seq']}")


def test_what_was_changed_and_another_key_are_refused(home: Path, tmp_path: Path) -> None:
    value = json.loads(run(home, "receipt", "--dsse"))
    run(tmp_path / "other", "route", "hello")
    other = key_of(tmp_path / "other")
    other = SSlibKey(key_of(home).keyid, "ed25519", "ed25519", other.keyval)
    with pytest.raises(VerificationError):
        read_envelope(value).verify([other], 1)
    payload = base64.b64decode(value["payload"]).replace(b"urn:pointsman", b"urn:pointsmen")
    changed = {**value, "payload": base64.b64encode(payload).decode()}
    for wrong in (changed, {**value, "payloadType": "application/json"}):
        with pytest.raises(VerificationError):
            read_envelope(wrong).verify([key_of(home)], 1)
