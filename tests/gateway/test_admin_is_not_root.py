"""A policy set over HTTP: which secrets it may name, and which addresses no policy may."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, entries, running, write_home
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.errors import DocumentError, InputError
from pointsman.testing.upstream_replies import Received, SendBytes, Step
from pointsman.turns.registry.models import read_models
from pointsman.turns.registry.upstream import read_base_url


def put(live: Running, town: Town, api_key: dict[str, str], **more: Any) -> httpx.Response:
    providers = {**town.models["providers"]}
    providers["open"] = {**providers["open"], "api_key": api_key, **more}
    text = json.dumps({**town.models, "providers": providers})
    return live.client.put("/api/policies/models.yaml", content=text, headers=bearer(live.admin))


def spellings(home: Path) -> list[str]:
    """The signing key by every way that leads to it."""
    key = home / "keys" / "signing"
    (home / "link").symlink_to(key)
    (home / "folder").symlink_to(home / "keys")
    (home / "twin").hardlink_to(key)
    return [
        str(key), "keys/signing", "./keys/../keys/signing", "link", "folder/signing", "twin",
        f"/proc/self/root{key}", f"/proc/self/cwd/{os.path.relpath(key)}", "/proc/self/environ",
        f"../{home.name}/keys/content", "keys//signing", "keys",
    ]  # fmt: skip


def test_no_way_leads_to_the_homes_keys_or_the_admin_token(town: Town) -> None:
    settings = {"secrets": {"env": ["POINTSMAN_ADMIN_TOKEN"], "folder": "/"}}
    write_home(town.home, pointsman=settings)
    with running(town.home) as live:
        before = (town.home / "models.yaml").read_bytes()
        refs = [{"file": way} for way in spellings(town.home)]
        for ref in (*refs, {"env": "POINTSMAN_ADMIN_TOKEN"}):
            told = put(live, town, ref)
            assert told.status_code == 400, ref
            assert "no provider may be given" in told.text
        assert (town.home / "models.yaml").read_bytes() == before
        assert live.chat("hello").status_code == 200


@pytest.mark.parametrize("ref", [{"file": "keys/signing"}, {"env": "POINTSMAN_ADMIN_TOKEN"}])
def test_a_file_that_names_them_already_sends_nothing(town: Town, ref: dict[str, str]) -> None:
    models = json.loads((town.home / "models.yaml").read_text())
    models["providers"]["open"]["api_key"] = ref
    write_home(town.home, models=models)
    with running(town.home) as live:
        assert live.chat("hello", model="big").status_code == 503
        assert put(live, town, ref).status_code == 400
    assert not town.openai.requests


def test_a_link_that_is_turned_to_the_keys_later_sends_nothing(town: Town, live: Running) -> None:
    own = town.home / "own-key"
    own.write_text("sk-mine")
    own.chmod(0o600)
    models = json.loads((town.home / "models.yaml").read_text())
    models["providers"]["open"]["api_key"] = {"file": "own-key"}
    write_home(town.home, models=models)
    live.parts.pointsman.reload()
    assert live.chat("hello", model="big").status_code == 200
    own.unlink()
    own.symlink_to(town.home / "keys" / "signing")
    assert live.chat("hello", model="big").status_code == 503
    assert len(town.openai.requests) == 1


def test_names_are_those_of_the_allow_list_and_those_that_stand_already(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTED_KEY", "sk-listed")
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "sk-hidden")
    folder = town.home / "given"
    folder.mkdir()
    (folder / "key").write_text("sk-file")
    (folder / "out").symlink_to("/etc/passwd")
    write_home(town.home, pointsman={"secrets": {"env": ["LISTED_KEY"], "folder": "given"}})
    with running(town.home) as live:
        for ref, status in (
            ({"env": "OPENAI_TEST_KEY"}, 200),
            ({"env": "LISTED_KEY"}, 200),
            ({"env": "SECRET_OF_THE_MACHINE"}, 400),
            ({"file": "given/key"}, 200),
            ({"file": "given/../models.yaml"}, 400),
            ({"file": "given/out"}, 400),
            ({"file": "/etc/passwd"}, 400),
            ({"file": "given"}, 400),
        ):
            told = put(live, town, ref)
            assert told.status_code == status, (ref, told.text)
        assert "models.yaml:1:" in told.text


def test_a_policy_that_is_only_tried_tells_nothing_of_other_secrets(
    town: Town, live: Running
) -> None:
    operator = made(live, role="operator")
    providers = {**town.models["providers"], "open": {"kind": "openai", "api_key": {"env": "HOME"}}}
    text = json.dumps({**town.models, "providers": providers})
    for path, body in (
        ("check", {"text": text}),
        ("try", {"text": text, "facts": {"message": "x"}}),
    ):
        told = live.post(f"/api/policies/models.yaml/{path}", body, **operator)
        assert "may not name the variable `HOME`" in told.text, told.text


REFUSED = [
    "169.254.169.254", "169.254.169.254.", "2852039166", "0xa9fea9fe", "0xA9FEA9FE",
    "025177524776", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.16689662", "169.254.43518",
    "0251.0xfe.43518", "2852039166.", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::169.254.169.254]", "[64:ff9b::169.254.169.254]",
    "[2002:a9fe:a9fe::]", "[fe80::1]", "[fe80::1%25eth0]", "[febf::1]", "[fe80::5efe:a9fe:a9fe]",
    "[fd00::5efe:a9fe:a9fe]", "[fd00:ec2::254]", "[fd00:0ec2:0:0:0:0:0:0254]", "169.254.0.1",
    "100.100.100.200", "0x64646464c8", "168.63.129.16", "192.0.0.192", "metadata.google.internal",
    "METADATA.google.internal.", "instance-data", "metadata", "\uff11\uff16\uff19.254.169.254",
    "169\u3002254\u3002169\u3002254", "%31%36%39.254.169.254", "\u2460\u2465\u2468.254.169.254",
    "169.254.169.254:80",
    "169.254.169.254:80@127.0.0.1", "user@169.254.169.254", "169.254.169.254%00.example",
]  # fmt: skip


@pytest.mark.parametrize("host", REFUSED)
def test_link_local_and_metadata_addresses_are_refused_however_they_are_spelled(host: str) -> None:
    for scheme in ("http", "https"):
        if host == "0x64646464c8":
            continue  # too large for an address: a name like any other
        with pytest.raises(InputError, match="base_url"):
            read_base_url(f"{scheme}://{host}/v1")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "10.0.0.7", "[::1]", "192.168.1.9", "0x7f000001", "api.example",
     "metadata.example", "1.example", "host.docker.internal", "[2001:db8::1]"],
)  # fmt: skip
def test_other_addresses_are_taken(host: str) -> None:
    assert read_base_url(f"http://{host}/v1")[1] == "/v1"


def test_a_models_file_with_such_an_address_is_refused_at_its_place() -> None:
    text = (
        b"schema_version: 1\nproviders:\n  a:\n    kind: openai\n    base_url: http://2852039166\n"
    )
    with pytest.raises(DocumentError) as caught:
        read_models(text, "models.yaml")
    (problem,) = caught.value.problems
    assert str(problem).startswith("models.yaml:5:15:")
    assert "2852039166" not in str(problem)


def test_a_password_in_an_address_is_refused_and_never_repeated(
    town: Town, live: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    url = "https://me:hunter2-is-my-password@models.example/v1"
    told = put(live, town, {"env": "OPENAI_TEST_KEY"}, base_url=url)
    assert told.status_code == 400
    assert "holds a name or a password" in told.text
    models = json.loads((town.home / "models.yaml").read_text())
    models["providers"]["open"]["base_url"] = url
    write_home(town.home, models=models)
    live.parts.pointsman.reload()
    live.chat("hello", model="big")
    seen = [told.text, live.get("/api/policies/models.yaml/check").text]
    seen += [
        live.get("/health/readiness").text,
        live.get("/api/providers").text,
        *capfd.readouterr(),
    ]
    seen += [each.payload.decode() for each in entries(town.home)]
    assert not [each for each in seen if "hunter2" in each]


def moved(to: str) -> Any:
    def reply(_request: Received) -> list[Step]:
        head = f"HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
        return [SendBytes(head.encode())]

    return reply


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_redirect_is_not_followed(town: Town, live: Running, is_stream: bool) -> None:
    town.openai.then(*[moved(f"{town.local.url}/v1/chat/completions")] * 4)
    told = live.chat("hello", model="big", stream=is_stream)
    assert told.status_code == 502, told.text
    assert not town.local.requests
    assert town.local.url not in told.text
