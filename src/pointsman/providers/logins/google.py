"""Google's logins: a token for a claim that a service account signs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec import Struct

from pointsman.providers.credentials import credential_id, read_text
from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.login import BearerLogin, Grant
from pointsman.providers.logins.tokens import TokenEndpoint
from pointsman.providers.port import NotConfigured
from pointsman.turns.registry.login import ProviderLogin, SecretRef

_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLAIM_S: Final = 3600


class ServiceAccount(Struct, frozen=True):
    """The parts of an account's file that a claim needs."""

    client_email: str
    private_key: str
    private_key_id: str = ""


def google_login(
    name: str, login: ProviderLogin, home: Path, pool: PoolSettings, outside: ProviderEnvironment
) -> BearerLogin:
    """Return the login of a service account; its file is read anew for each token."""
    url = login.token_url or _TOKEN_URL
    endpoint = TokenEndpoint(name, url, pool, outside)
    ref = login.service_account or SecretRef()

    async def fetch() -> Grant:
        account = _account(ref, home)
        claim = signed_claim(account, url, login.scope or _SCOPE, int(outside.wall_s()))
        if claim is None:
            raise _missing(ref, "holds no RSA key")
        return await endpoint.fetch_token({"grant_type": _GRANT, "assertion": claim})

    return BearerLogin(credential_id(ref), fetch, outside.monotonic_s, endpoint.close)


def signed_claim(account: ServiceAccount, audience: str, scope: str, now_s: int) -> str | None:
    """Return the claim of an account as a signed token; None where its key cannot be used."""
    try:
        key = load_pem_private_key(account.private_key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, RSAPrivateKey):
        return None
    head = {"alg": "RS256", "typ": "JWT"}
    if account.private_key_id:
        head["kid"] = account.private_key_id
    claim = {
        "iss": account.client_email,
        "scope": scope,
        "aud": audience,
        "iat": now_s,
        "exp": now_s + _CLAIM_S,
    }
    signed = b".".join(_base64(msgspec.json.encode(part)) for part in (head, claim))
    signature = _base64(key.sign(signed, PKCS1v15(), hashes.SHA256()))
    return (signed + b"." + signature).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _account(ref: SecretRef, home: Path) -> ServiceAccount:
    text = read_text(ref, home)
    if text is None:
        raise _missing(ref, "is missing")
    try:
        return msgspec.json.decode(text, type=ServiceAccount)
    except msgspec.MsgspecError:
        raise _missing(ref, "is no file of a service account") from None


def _missing(ref: SecretRef, why: str) -> NotConfigured:
    return NotConfigured(f"the secret `{ref.label}` {why}", credential=credential_id(ref))
