"""Amazon's logins: keys of an account, from a profile or by an assumed role, and their signature.

The signature is Amazon's version 4, as its documentation has it; botocore is its oracle in tests.
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote

from msgspec import Struct

from pointsman.providers.credentials import Credential, credential_id, read_text
from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.login import EARLY_S
from pointsman.providers.logins.tokens import FORM, TokenEndpoint, encode_form
from pointsman.providers.port import NotConfigured
from pointsman.providers.secret import NO_SECRET, Secret
from pointsman.turns.registry.login import ProviderLogin, SecretRef

ROLE_S: Final = 3600
_STS_VERSION: Final = "2011-06-15"
_SERVICE: Final = "bedrock"


class AwsKeys(Struct, frozen=True):
    """Keys of an account: the public half, the secret one, and the token of temporary ones."""

    access_key: str
    secret_key: Secret
    token: Secret = NO_SECRET


class Signing(Struct, frozen=True):
    """What a signature covers beside the keys."""

    service: str
    region: str
    host: str
    target: str
    body: bytes
    content_type: str
    at_s: float


def sign(keys: AwsKeys, request: Signing) -> str:
    """Return the header lines that sign a POST request."""
    stamp = datetime.fromtimestamp(request.at_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": request.content_type, "host": request.host, "x-amz-date": stamp}
    if token := keys.token.reveal():
        headers["x-amz-security-token"] = token
    names = ";".join(headers)
    path, _, query = request.target.partition("?")
    canonical = "\n".join(
        (
            "POST",
            # What stands in the address encoded already is encoded once more here.
            quote(path, safe="/-_.~"),
            _canonical_query(query),
            *(f"{name}:{value}" for name, value in headers.items()),
            "",
            names,
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    scope = f"{stamp[:8]}/{request.region}/{request.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = hmac.new(
        _signing_key(keys.secret_key, scope),
        f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(),
        "sha256",
    ).hexdigest()
    lines = {name: headers[name] for name in headers if name.startswith("x-amz")}
    lines["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return "".join(f"{name}: {value}\r\n" for name, value in lines.items())


def _canonical_query(query: str) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


def _signing_key(secret: Secret, scope: str) -> bytes:
    key = b"AWS4" + secret.reveal().encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return key


class AwsLogin:
    """Signs calls with the keys of an account, or of a role that these may assume for a while."""

    signs = True

    def __init__(
        self, name: str, login: ProviderLogin, region: str, home: Path, pool: PoolSettings,
        outside: ProviderEnvironment,
    ) -> None:  # fmt: skip
        self._keys_now, self.id = _key_source(login, home)
        self._region = region
        self._login = login
        self._outside = outside
        self._role_keys: AwsKeys | None = None
        self._good_until = 0.0
        self._uses = 0
        url = login.token_url or f"https://sts.{region}.amazonaws.com"
        self._sts = TokenEndpoint(name, url, pool, outside) if login.role else None

    @property
    def is_ready(self) -> bool:
        """Tell whether calls can be signed; keys that need no role always can."""
        return self._sts is None or self._outside.monotonic_s() < self._good_until

    async def renew(self) -> None:
        """Assume the role."""
        if self._sts is None:
            return
        form = {
            "Action": "AssumeRole",
            "Version": _STS_VERSION,
            "RoleArn": self._login.role,
            "RoleSessionName": "pointsman",
            "DurationSeconds": str(ROLE_S),
        }
        if self._login.external_id:
            form["ExternalId"] = self._login.external_id
        body, sts = encode_form(form), self._sts
        at_s = self._outside.wall_s()
        request = Signing("sts", self._region, sts.origin.host_header, sts.target, body, FORM, at_s)
        lines = sign(self._keys_now(), request)
        keys = _read_keys(await sts.post(form, lines, accept="text/xml"))
        if keys is None:
            raise sts.unreadable()
        self._role_keys, self._uses = keys, 0
        self._good_until = self._outside.monotonic_s() + ROLE_S - EARLY_S

    def secret(self) -> Secret:
        """Return the token, which Amazon repeats in some refusals."""
        return self._role_keys.token if self._role_keys is not None else self._keys_now().token

    def sign(self, host: str, target: str, body: bytes) -> str:
        """Sign a request."""
        self._uses += 1
        keys = self._role_keys or self._keys_now()
        at_s = self._outside.wall_s()
        kind = "application/json"
        return sign(keys, Signing(_SERVICE, self._region, host, target, body, kind, at_s))

    def drop(self) -> bool:
        """Forget the keys of the role."""
        has_worked, self._good_until = self._sts is not None and self._uses > 1, 0.0
        return has_worked

    async def close(self) -> None:
        """Close every connection."""
        if self._sts is not None:
            await self._sts.close()


def _key_source(login: ProviderLogin, home: Path) -> tuple[Callable[[], AwsKeys], str]:
    """Return what reads the keys as they are now, and their short id."""
    if login.profile:
        ref = SecretRef(file=login.profile_file)
        return lambda: _profile_keys(ref, login.profile, home), credential_id(ref)
    access, secret, token = (
        None if ref is None else Credential(ref, home)
        for ref in (login.access_key, login.secret_key, login.session_token)
    )
    assert access is not None  # noqa: S101 - the file is checked
    assert secret is not None  # noqa: S101 - likewise

    def read() -> AwsKeys:
        given = NO_SECRET if token is None else token.secret()
        return AwsKeys(access.secret().reveal(), secret.secret(), given)

    return read, access.id


def _profile_keys(ref: SecretRef, profile: str, home: Path) -> AwsKeys:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    missing = NotConfigured(f"no keys of the profile `{profile}`", credential=credential_id(ref))
    try:
        parser.read_string(read_text(ref, home) or "")
        found = parser[profile]
        access, secret = found["aws_access_key_id"], found["aws_secret_access_key"]
    except (configparser.Error, KeyError):
        raise missing from None
    token = found.get("aws_session_token", "")
    if not all(each.isascii() and each.isprintable() for each in (access, secret, token)):
        raise missing
    return AwsKeys(access, Secret(secret), Secret(token))


def _read_keys(body: bytes) -> AwsKeys | None:
    """Return the keys of a role from the answer, which is XML with each part once."""
    found = [
        re.search(rb"<%b>([\x21-\x3b\x3d-\x7e]{1,8192})</%b>" % (name, name), body)
        for name in (b"AccessKeyId", b"SecretAccessKey", b"SessionToken")
    ]
    if None in found:
        return None
    access, secret, token = (each[1].decode() for each in found if each is not None)
    return AwsKeys(access, Secret(secret), Secret(token))
