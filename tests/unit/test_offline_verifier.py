"""The one-file verifier: its reading of hostile lines, and its command."""

import ast
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from pointsman import offline_verifier
from pointsman.audit.export import export_bundle
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.offline_verifier import BundleBroken, Unusable, audit, expected_key, main, parse
from pointsman.storage.home import open_home
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.writer.ledger import LedgerWriter


class Weights(Struct, frozen=True):
    level: int


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = open_home(tmp_path_factory.mktemp("offline") / "home")
    chain = Chain(home.identity.ledger, "cli")
    place = WritePlace(home.database, home.checkpoints, sync="OFF")
    opening = Draft("ledger.opened", "open", "", Instant(0), b"{}")
    writer = LedgerWriter(place, chain, home.signing_key(), opening)
    made = SnapshotForm("weights", 1, Weights).make(
        Weights(1), home.identity.ledger, home.signing_key()
    )
    odd = "".join(map(chr, (*range(0x30), 0x7F, 0x2028, 0xE9, 0x1F600)))
    for draft in (
        snapshot_draft(made, Instant(1)),
        Draft("k", "odd", "", Instant(2), odd.encode(), (odd.encode(), b"\xff")),
        Draft("k", "hex", "", Instant(3), b"\xc3"),
    ):
        writer.append(draft).result()
    writer.close()
    return home


@pytest.fixture(scope="module")
def summary(home, tmp_path_factory):
    return export_bundle(home, tmp_path_factory.mktemp("out") / "ledger.bundle")


@pytest.fixture
def lines(summary):
    return summary.path.read_bytes().splitlines(keepends=True)


def fault_of(data, expected=""):
    return audit(io.BytesIO(data), expected)["fault"]


def test_an_exported_bundle_is_intact(summary):
    report = audit(io.BytesIO(summary.path.read_bytes()), summary.key_id)
    assert report["is_intact"]
    assert report["fault"] is None
    assert report["is_expected_key"]
    counts = (report["chains"], report["entries"], report["checkpoints"])
    assert counts == (summary.chains, summary.entries, summary.checkpoints) == (1, 4, 1)


def test_a_bundle_is_verified_without_any_package(summary):
    program = (
        "import sys; sys.modules['cryptography'] = None; sys.argv[0] = sys.argv.pop(1);"
        "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", program, str(summary.verifier), str(summary.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "intact: 4 entries in 1 chains, 1 checkpoints" in done.stdout
    assert summary.key_id in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"[]\n", b"{}", b" {}\n", b'{"a":1.0}\n', b'{"a":1e3}\n', b'{"a":NaN}\n',
        b'{"a":-Infinity}\n', b'{"a":1,"a":1}\n', b'{"b":1,"a":1}\n', b'{"a":"\\u0041"}\n',
        b'{"a":01}\n', b'{"a":-0}\n', b'{"a": 1}\n', b"\xff\n", b'{"a":"\xed\xa0\x80"}\n',
        b'{"a":"\\ud800"}\n', b'{"a":' + b"9" * 5000 + b"}\n", b"[" * 100_000 + b"\n",
        b'{"a":' * 50_000 + b"\n", b"\xef\xbb\xbf{}\n", b"{}\r\n", b"true\n", b'"a"\n',
    ],
)  # fmt: skip
def test_a_line_that_is_not_written_in_the_one_form_is_refused(line):
    with pytest.raises(BundleBroken):
        parse(line)


def test_a_line_past_the_size_limit_is_refused_without_being_read_whole(lines, monkeypatch):
    monkeypatch.setattr(offline_verifier, "MAX_LINE", 200)
    fault = fault_of(lines[0] + lines[1] + b'{"at":' + b"9" * 10_000)
    assert fault["message"] == "the line is too long"


def test_every_line_of_the_bundle_is_needed_once_and_in_its_place(lines):
    for index in range(1, len(lines)):
        assert fault_of(b"".join(lines[:index] + lines[index + 1 :]))
        assert fault_of(b"".join(lines[: index + 1] + lines[index:]))
    for index in range(1, len(lines) - 1):
        swapped = [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
        assert fault_of(b"".join(swapped))


def edited(line, **changes):
    value = {**json.loads(line), **changes}
    value = {key: each for key, each in value.items() if each is not ...}
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode() + b"\n"


WRONG = [
    {"seq": True}, {"seq": "0"}, {"seq": -1}, {"seq": 2**63}, {"seq": 7},
    {"at": 2**63}, {"at": None},
    {"kind": 5}, {"kind": "é"}, {"id": "x" * 129}, {"ref": []}, {"attached": "00"},
    {"attached": [5]},
    {"attached": ["00" * 32] * 2048}, {"prev": "00"}, {"prev": "00" * 32}, {"hash": "FF" * 32},
    {"hash": "00" * 32}, {"payload": 5}, {"payload": ..., "payload_hex": "7b7d"},
    {"payload": ..., "payload_hex": "f"}, {"payload": ..., "payload_hex": "FF"},
    {"payload": ..., "payload_hex": None}, {"more": 1}, {"payload": ...}, {"seq": {}},
]  # fmt: skip


@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_a_wrong_field_names_its_entry(lines, changes):
    fault = fault_of(b"".join([*lines[:2], edited(lines[2], **changes), *lines[3:]]))
    assert (fault["chain"], fault["seq"], fault["line"]) == ("cli", 0, 3)


def index_of(lines, start):
    return next(index for index, line in enumerate(lines) if line.startswith(start))


@pytest.mark.parametrize(
    ("start", "changes"),
    [
        (b'{"attachment":', {"attachment": 1}),
        (b'{"attachment":', {"attachment": False}),
        (b'{"attachment":', {"text": "other"}),
        (b'{"attachment":', {"text": 5}),
    ],
)
def test_a_wrong_attachment_names_its_entry(lines, start, changes):
    index = index_of(lines, start)
    fault = fault_of(b"".join([*lines[:index], edited(lines[index], **changes)]))
    assert (fault["chain"], fault["seq"], fault["line"]) == ("cli", 1, index + 1)


@pytest.mark.parametrize(
    ("start", "changes"),
    [
        (b'{"chain":', {"chain": "CLI"}),
        (b'{"chain":', {"chain": 5}),
        (b'{"checkpoint":', {"checkpoint": "hello"}),
        (b'{"checkpoint":', {"checkpoint": 5}),
        (b'{"digest":', {"lines": 3}),
        (b'{"digest":', {"digest": "00" * 32}),
        (b'{"digest":', {"key": "ed25519:" + "0" * 32}),
        (b'{"digest":', {"key": []}),
        (b'{"digest":', {"signature": "00" * 64}),
        (b'{"digest":', {"signature": "00"}),
    ],
)
def test_a_wrong_line_outside_entries_is_named_by_its_number(lines, start, changes):
    index = index_of(lines, start)
    fault = fault_of(b"".join([*lines[:index], edited(lines[index], **changes)]))
    assert (fault["seq"], fault["line"]) == (None, index + 1)


@pytest.mark.parametrize("changes", [{"end": "cl"}, {"entries": 3}, {"head": "00" * 32}])
def test_a_chain_that_ends_elsewhere_is_named_by_its_end(lines, changes):
    index = index_of(lines, b'{"end":')
    fault = fault_of(b"".join([*lines[:index], edited(lines[index], **changes)]))
    assert (fault["chain"], fault["seq"], fault["line"]) == ("cli", 4, index + 1)


@pytest.mark.parametrize(
    "header",
    [
        b"", b"\n", b"PK\x03\x04", b"{}\n", b"[1]\n", b'{"format":"pointsman/bundle/2"}\n',
        b'{"format":"pointsman/bundle/1","keys":5,"ledger":""}\n',
        b'{"format":"pointsman/bundle/1","keys":["00"],"ledger":"' + b"0" * 32 + b'"}\n',
        b'{"format":"pointsman/bundle/1","keys":[],"ledger":5}\n',
    ],
)  # fmt: skip
def test_what_is_no_bundle_is_unusable(header):
    with pytest.raises(Unusable, match="not a bundle"):
        audit(io.BytesIO(header))


def test_what_follows_the_end_is_found(summary):
    data = summary.path.read_bytes()
    assert fault_of(data + b"\n")["message"] == "something follows the end of the bundle"


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_without_a_key_the_command_says_what_to_compare(summary, capsys):
    code, out, _ = run(capsys, summary.path)
    assert code == 0
    assert f"signed by {summary.key_id}: compare it with the key" in out


def test_the_expected_key_is_taken_as_id_or_as_public_key(home, summary, capsys):
    for key in (summary.key_id, home.identity.keys[0]):
        code, out, _ = run(capsys, summary.path, "--key", key)
        assert code == 0
        assert f"{summary.key_id}: the expected key" in out


def test_another_key_than_the_expected_one_is_not_intact(summary, capsys):
    code, out, _ = run(capsys, summary.path, "--key", "00" * 32)
    assert code == 1
    assert "NOT INTACT: the bundle is signed by" in out
    assert "NOT the expected key" in out


def test_the_report_is_there_as_json(summary, capsys):
    code, out, _ = run(capsys, summary.path, "--json")
    assert code == 0
    assert json.loads(out)["is_expected_key"] is None


def test_the_first_bad_entry_is_printed_by_chain_and_number(lines, tmp_path, capsys):
    bad = tmp_path / "bad"
    bad.write_bytes(b"".join([*lines[:2], edited(lines[2], ref="x"), *lines[3:]]))
    code, out, _ = run(capsys, bad)
    assert code == 1
    assert out.startswith("NOT INTACT: cli/0: the entry is not what was recorded (line 3)\n")


def test_unusable_input_is_one_line_and_exit_2(summary, tmp_path, capsys):
    (tmp_path / "no").write_bytes(b"hello")
    for arguments in (
        [tmp_path / "missing"], [tmp_path], [tmp_path / "no"], ["\0"],
        [summary.path, "--key", "mine"],
    ):  # fmt: skip
        code, out, err = run(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("cannot verify ")


def test_a_key_of_neither_form_is_refused():
    assert expected_key("") == ""
    with pytest.raises(Unusable):
        expected_key("ED25519:" + "0" * 32)


def code_lines(text):
    """Count the lines that are neither blank nor comment nor docstring."""
    told = set()
    for node in ast.walk(ast.parse(text, feature_version=(3, 9))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            told.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        1
        for number, line in lines
        if line.strip() and not line.strip().startswith("#") and number not in told
    )


def test_the_verifier_stays_small_enough_to_be_read_and_runs_on_python_3_9():
    text = Path(offline_verifier.__file__).read_text(encoding="utf-8")
    curve = text[text.index("# Ed25519 of RFC 8032") : text.index("def verifies_fast")]
    assert code_lines(text) - code_lines(curve) <= 500
