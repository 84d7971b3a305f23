"""Amazon's signature and logins; botocore is the oracle."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from urllib.parse import parse_qs

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.providers.calling import run

from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.logins.aws import AwsKeys, AwsLogin, Signing, sign
from pointsman.providers.port import NotConfigured, UpstreamError
from pointsman.providers.secret import NO_SECRET, Secret
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_replies import SendBytes, does, plain
from pointsman.turns.registry.login import ProviderLogin, SecretRef

AT = 1_795_000_000
HOST = "bedrock-runtime.eu-west-1.amazonaws.com"
ROLE = "arn:aws:iam::123456789012:role/caller"
ASSUMED = b"""<AssumeRoleResponse><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>se/cret+of=role</SecretAccessKey>
<SessionToken>token/of+role==</SessionToken><Expiration>2026-11-19T05:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""


def oracle(
    monkeypatch: pytest.MonkeyPatch, request: Signing, token: str | None
) -> dict[str, str | None]:
    """Sign with botocore, at the same time."""
    now = dt.datetime.fromtimestamp(request.at_s, dt.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: now.replace(tzinfo=None))
    asked = AWSRequest(
        "POST",
        f"https://{request.host}{request.target}",
        data=request.body,
        headers={"content-type": request.content_type, "host": request.host},
    )
    keys = Credentials("AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG", token)
    botocore.auth.SigV4Auth(keys, request.service, request.region).add_auth(asked)
    names = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")
    return {name.lower(): asked.headers.get(name) for name in names}


MODELS = st.sampled_from(
    [
        "anthropic.claude-3-5-sonnet-20240620-v1%3A0",
        "us.amazon.nova-pro-v1%3A0",
        "arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fus.x",
        "plain-name~1",
    ]
)


@given(
    model=MODELS,
    body=st.binary(max_size=200),
    token=st.none() | st.text("abcXYZ019/+=", min_size=1, max_size=40),
    region=st.sampled_from(["us-east-1", "eu-west-1"]),
    service=st.sampled_from(["bedrock", "sts"]),
    query=st.sampled_from(["", "?b=2&a=1%201", "?x="]),
)
@settings(max_examples=60, deadline=None)
def test_a_signature_is_that_of_botocore(
    model: str, body: bytes, token: str | None, region: str, service: str, query: str
) -> None:
    request = Signing(
        service, region, HOST, f"/model/{model}/converse{query}", body, "application/json", AT
    )
    keys = AwsKeys(
        "AKIDEXAMPLE",
        Secret("wJalr/XUtnFEMI+K7MDENG"),
        NO_SECRET if token is None else Secret(token),
    )
    lines = dict(line.split(": ", 1) for line in sign(keys, request).splitlines())
    with pytest.MonkeyPatch.context() as patch:
        wanted = oracle(patch, request, token)
    assert lines == {name: value for name, value in wanted.items() if value is not None}


def login(home: Path, outside: ProviderEnvironment, **given: object) -> AwsLogin:
    parts = {"access_key": SecretRef(env="AK"), "secret_key": SecretRef(env="SK"), **given}
    if "profile" in given:
        parts = given
    return AwsLogin("aws", ProviderLogin(**parts), "eu-west-1", home, PoolSettings(), outside)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AK", "AKIDEXAMPLE")
    monkeypatch.setenv("SK", "secret-half")


def test_a_role_is_assumed_once_and_anew_when_its_keys_end(tmp_path: Path) -> None:
    clock = [0.0]
    outside = ProviderEnvironment(wall_s=lambda: AT, monotonic_s=lambda: clock[0])

    async def work() -> None:
        async with ScriptedUpstream(
            otherwise=does(SendBytes(plain(ASSUMED, content_type="text/xml")))
        ) as sts:
            it = login(tmp_path, outside, role=ROLE, external_id="x-1", token_url=sts.base_url)
            assert not it.is_ready
            await it.renew()
            assert it.is_ready
            clock[0] = 3600 - 59
            assert not it.is_ready
            (asked,) = sts.requests
            assert parse_qs(asked.body.decode()) == {
                "Action": ["AssumeRole"],
                "Version": ["2011-06-15"],
                "RoleArn": [ROLE],
                "RoleSessionName": ["pointsman"],
                "DurationSeconds": ["3600"],
                "ExternalId": ["x-1"],
            }
            assert "/eu-west-1/sts/aws4_request" in (asked.header("authorization") or "")
            assert asked.header("accept") == "text/xml"
            lines = it.sign(HOST, "/model/m/converse", b"{}")
            assert "Credential=ASIA1/" in lines
            assert "x-amz-security-token: token/of+role==\r\n" in lines
            assert it.secret().reveal() == "token/of+role=="
            await it.close()

    run(work)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (403, b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>", "auth"),
        (200, b"<AssumeRoleResponse/>", "server_error"),
        (503, b"", "server_error"),
    ],
)
def test_a_role_that_cannot_be_assumed_is_told(
    tmp_path: Path, status: int, body: bytes, kind: str
) -> None:
    async def work() -> None:
        async with ScriptedUpstream(
            otherwise=does(SendBytes(plain(body, status, content_type="text/xml")))
        ) as sts:
            it = login(tmp_path, ProviderEnvironment(), role=ROLE, token_url=sts.base_url)
            with pytest.raises(UpstreamError) as caught:
                await it.renew()
            assert caught.value.error_class == kind
            assert "secret-half" not in str(caught.value)
            await it.close()

    run(work)


PROFILES = """
[default]
aws_access_key_id = AKDEFAULT
aws_secret_access_key = one

[work]
aws_access_key_id=AKWORK
aws_secret_access_key=two%three
aws_session_token=tok/en
"""


def test_keys_come_from_a_profile_as_the_file_is_now(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(PROFILES)
    outside = ProviderEnvironment(wall_s=lambda: AT)
    it = login(tmp_path, outside, profile="work", profile_file=str(file))
    assert "Credential=AKWORK/" in it.sign(HOST, "/", b"")
    assert it.secret().reveal() == "tok/en"
    file.write_text(PROFILES.replace("AKWORK", "AKLATER"))
    assert "Credential=AKLATER/" in it.sign(HOST, "/", b"")


@pytest.mark.parametrize(
    "text",
    ["", "[other]\na=1\n", "[work]\naws_access_key_id=A\n", "no ini",
     "[work]\naws_access_key_id=A\n  B: c\naws_secret_access_key=s\n"],
)  # fmt: skip
def test_a_profile_without_keys_is_not_configured(tmp_path: Path, text: str) -> None:
    (tmp_path / "credentials").write_text(text)
    it = login(tmp_path, ProviderEnvironment(), profile="work", profile_file="credentials")
    with pytest.raises(NotConfigured, match="no keys of the profile `work`"):
        it.sign(HOST, "/", b"")


def test_missing_keys_are_not_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SK")
    with pytest.raises(NotConfigured, match="env SK"):
        login(tmp_path, ProviderEnvironment()).sign(HOST, "/", b"")
