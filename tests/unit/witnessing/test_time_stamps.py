"""Time stamps, with OpenSSL's own authority as the other side; and what is not one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tamper"))

from cryptography.x509 import Certificate, load_pem_x509_certificates
from rewriting import build
from small_ledger import draft, fill

from pointsman.audit.verify import verify_ledger
from pointsman.errors import InputError
from pointsman.kernel.der import read_der, write_der, write_integer
from pointsman.kernel.entry import Draft
from pointsman.kernel.time_stamp import read_time_stamp, token_of, write_query
from pointsman.recording.machine import SystemClock
from pointsman.storage.policies.witness_settings import TimeStamps, WitnessSettings
from pointsman.testing.builders import CountedIds, FrozenClock
from pointsman.witnessing.rounds import Witnessing

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL is the authority")

DATA = b"a checkpoint\n"
NONCE = 0xFEDC_BA98_7654_3210
_CONFIG = """
[ req ]
distinguished_name = name
[ name ]
[ signer ]
extendedKeyUsage = critical,timeStamping
[ other ]
extendedKeyUsage = serverAuth
[ issuer ]
basicConstraints = critical,CA:TRUE
[ tsa ]
default_tsa = tsa_config
[ tsa_config ]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256, sha512
ess_cert_id_alg = sha256
"""


def openssl(folder: Path, *arguments: str, data: bytes = b"") -> bytes:
    done = subprocess.run(
        ["openssl", *arguments], cwd=folder, input=data, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Authority:
    """An authority of OpenSSL: an issuer, and a signer for time stamps that it issued."""

    def __init__(self, folder: Path, kind: str = "ec", usage: str = "signer") -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "serial").write_text("01\n")
        (folder / "config").write_text(_CONFIG.format(folder=folder))
        new = ["-newkey", "rsa:2048"] if kind == "rsa" else ["-newkey", "ec"]
        new += [] if kind == "rsa" else ["-pkeyopt", "ec_paramgen_curve:P-256"]
        self._make("issuer", new, ["-x509", "-extensions", "issuer"])
        issued = ["-x509", "-extensions", usage, "-CA", "issuer.pem", "-CAkey", "issuer.key"]
        self._make("signer", new, issued)

    def _make(self, name: str, new: list[str], more: list[str]) -> None:
        told = ["-nodes", "-config", "config", "-subj", f"/CN={name}", "-days", "2"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        openssl(self.folder, "req", "-new", *new, *told, *files, *more)

    def certificates(self, name: str) -> list[Certificate]:
        return load_pem_x509_certificates((self.folder / f"{name}.pem").read_bytes())

    def answer(self, query: bytes) -> bytes:
        (self.folder / "query").write_bytes(query)
        told = ["-config", "config", "-signer", "signer.pem", "-inkey", "signer.key"]
        openssl(self.folder, "ts", "-reply", "-queryfile", "query", "-out", "reply", *told)
        return (self.folder / "reply").read_bytes()


@pytest.fixture(scope="module", params=["ec", "rsa"])
def authority(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / request.param, request.param)


@pytest.fixture(scope="module")
def token(authority: Authority) -> bytes:
    answer = authority.answer(write_query(DATA, NONCE))
    (authority.folder / "first").write_bytes(answer)
    return token_of(answer)


@pytest.mark.parametrize("trusted", ["signer", "issuer"])
def test_a_stamp_of_another_program_verifies(
    authority: Authority, token: bytes, trusted: str
) -> None:
    found = read_time_stamp(token, DATA, authority.certificates(trusted), NONCE)
    assert found.authority == "CN=signer"
    again = openssl(authority.folder, "ts", "-reply", "-in", "first", "-text").decode()
    assert f"Serial number: 0x{found.serial:02X}" in again


def test_our_request_is_what_openssl_reads(authority: Authority, token: bytes) -> None:
    del token
    (authority.folder / "ours").write_bytes(write_query(DATA, NONCE))
    told = openssl(authority.folder, "ts", "-query", "-in", "ours", "-text").decode()
    assert "Hash Algorithm: sha256" in told
    assert "Nonce: 0xFEDCBA9876543210" in told
    assert "Certificate required: yes" in told


def test_other_bytes_another_request_and_another_authority_are_refused(
    authority: Authority, token: bytes, tmp_path: Path
) -> None:
    trusted = authority.certificates("issuer")
    with pytest.raises(InputError, match="about other bytes"):
        read_time_stamp(token, DATA + b"x", trusted, NONCE)
    with pytest.raises(InputError, match="does not answer this request"):
        read_time_stamp(token, DATA, trusted, NONCE + 1)
    stranger = Authority(tmp_path / "stranger")
    with pytest.raises(InputError, match="no trusted certificate signed it"):
        read_time_stamp(token, DATA, stranger.certificates("issuer"), NONCE)
    with pytest.raises(InputError, match="no trusted certificate signed it"):
        read_time_stamp(token, DATA, (), NONCE)


def test_no_byte_of_a_token_can_be_changed_into_another_stamp(
    authority: Authority, token: bytes
) -> None:
    """A changed byte is refused, or lies where nothing is signed and changes no fact."""
    trusted = authority.certificates("signer")
    honest = read_time_stamp(token, DATA, trusted, NONCE)
    refused = 0
    for at in range(len(token)):
        changed = token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :]
        try:
            assert read_time_stamp(changed, DATA, trusted, NONCE) == honest
        except InputError:
            refused += 1
    assert refused > len(token) // 3
    for size in range(0, len(token), 7):
        with pytest.raises(InputError):
            read_time_stamp(token[:size], DATA, trusted, NONCE)


def test_a_certificate_for_something_else_signs_no_time(tmp_path: Path) -> None:
    """OpenSSL itself refuses to sign so: the check is on what it would verify by."""
    other = Authority(tmp_path / "other", usage="other")
    good = Authority(tmp_path / "good")
    token = token_of(good.answer(write_query(DATA, NONCE)))
    with pytest.raises(InputError, match="no trusted certificate signed it"):
        read_time_stamp(token, DATA, other.certificates("signer"), NONCE)


def test_a_refusal_of_the_authority_is_told() -> None:
    refused = write_der(0x30, write_der(0x30, write_integer(2)))
    with pytest.raises(InputError, match="gave no time stamp: status 2"):
        token_of(refused)
    with pytest.raises(InputError, match="cannot be read"):
        token_of(b"<html>")


@pytest.mark.parametrize(
    "data", [b"", b"\x30", b"\x30\x80", b"\x30\x81\x01a", b"\x30\x82\x00\x01a", b"\x02\x01\x01x",
             b"\x1f\x01a", b"\x30\x84\xff\xff\xff\xff"],
)  # fmt: skip
def test_what_is_not_in_its_one_form_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="time stamp"):
        read_der(data)


@contextmanager
def served(authority: Authority) -> Iterator[str]:
    """Serve an authority on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = authority.answer(body)
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_a_round_has_checkpoints_stamped_and_verification_tells_since_when(
    tmp_path: Path, authority: Authority
) -> None:
    home = build(tmp_path / "home", None, {"cli": [draft(number) for number in range(20)]})
    recorded: list[Draft] = []
    (home.path / "tsa.pem").write_bytes((authority.folder / "issuer.pem").read_bytes())
    with served(authority) as url:
        stamps = TimeStamps(url, "tsa.pem", every_s=600)
        settings = WitnessSettings(time_stamps=stamps)
        clock = FrozenClock(SystemClock().now())
        sources = (clock, CountedIds("s"))
        submits = Witnessing(home, settings, recorded.append, sources)
        submits.run_round()
        submits.run_round()
        assert len(recorded) == 1, "not due again"
        again = Witnessing(home, settings, recorded.append, sources)
        fill(home, "ops", recorded)
        again.run_round()
        assert len(recorded) == 2, "a process that starts knows when it was due; the new chain is"
        assert recorded[1].ref.endswith("/ops")
    stamped = recorded[0]
    note, token = stamped.attachments
    found = read_time_stamp(token, note, authority.certificates("issuer"))
    report = verify_ledger(home)
    assert report.is_intact
    proofs = {each.chain: each for each in report.proofs}
    assert proofs["cli"].stamped == (21, found.at)
    assert proofs["cli"].ranges[0].against == "operator_without_key"


def test_an_authority_that_is_away_is_recorded_as_lost(tmp_path: Path) -> None:
    home = build(tmp_path / "home", None, {"cli": [draft(number) for number in range(20)]})
    recorded: list[Draft] = []
    settings = WitnessSettings(
        time_stamps=TimeStamps("http://127.0.0.1:9", "none.pem", every_s=1), gap_s=60, timeout_s=2
    )
    clock = FrozenClock()
    submits = Witnessing(home, settings, recorded.append, (clock, CountedIds("s")))
    submits.run_round()
    clock.advance(seconds=61)
    submits.run_round()
    submits.run_round()
    assert [each.kind for each in recorded] == ["event.witness.lost"]
