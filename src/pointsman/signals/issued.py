"""Secrets whose form their issuer chose: prefixed keys and tokens, JWTs, webhooks, key blocks."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pointsman.signals.checksums import crc_base62
from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned
from pointsman.signals.variety import is_placeholder, is_varied


class Issued(NamedTuple):
    """A kind of token: its start, the characters behind it, and the check that holds for them."""

    kind: str
    start: str
    body: str
    reason: str
    check: Callable[[str], bool] | None = None


_TOKENS = (
    Issued(
        "aws_access_key",
        r"(?:AKIA|ASIA|ABIA|ACCA)",
        r"[A-Z0-9]{16}",
        "AWS prefix and 16 characters",
        # Also the one of Amazon's own pages: a key is stored and sent like any other.
        lambda body: is_varied(body, 5),
    ),
    Issued(
        "google_oauth_secret",
        r"(?:GOCSPX-|ya29\.)",
        r"[A-Za-z0-9_\-]{28,}",
        "Google prefix and a body of at least 28 characters",
    ),
    Issued(
        "digitalocean_token",
        r"do[opr]_v1_",
        r"[0-9a-f]{64}",
        "DigitalOcean prefix and 64 hexadecimal digits",
    ),
    Issued(
        "alibaba_access_key",
        r"LTAI",
        r"[A-Za-z0-9]{12,20}",
        "Alibaba prefix and 12 to 20 characters",
    ),
    Issued(
        "tencent_secret_id",
        r"AKID",
        r"[A-Za-z0-9]{32}",
        "Tencent prefix and 32 characters",
    ),
    Issued(
        "databricks_token",
        r"dapi",
        r"[0-9a-f]{32}(?:-[0-9])?",
        "Databricks prefix and 32 hexadecimal digits",
    ),
    Issued(
        "vault_token",
        r"hv[sbr]\.",
        r"[A-Za-z0-9_\-]{24,}",
        "Vault prefix and a body of at least 24 characters",
    ),
    Issued(
        "cloudflare_key",
        r"v1\.0-",
        r"[0-9a-f]{24}-[0-9a-f]{146}",
        "Cloudflare prefix and hexadecimal digits of its lengths",
    ),
    Issued(
        "github_token",
        r"gh[pousr]_",
        r"[A-Za-z0-9]{36}",
        "GitHub prefix, CRC-32 checksum holds",
        crc_base62,
    ),
    Issued(
        "github_token",
        r"gh[sr]_",
        r"[A-Za-z0-9_.\-]{60,}",
        "GitHub prefix and a long body",
    ),
    Issued(
        "github_token",
        r"github_pat_",
        r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
        "prefix and body of a fine-grained GitHub token",
    ),
    Issued(
        "gitlab_token",
        r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent|ffct)-",
        r"[A-Za-z0-9_\-]{20,}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
        "GitLab prefix and a body of at least 20 characters",
    ),
    Issued(
        "slack_token",
        r"xox[abeoprs]-",
        r"(?:[0-9]+-){1,3}[A-Za-z0-9\-]{20,}|[0-9]-[A-Za-z0-9\-]{40,}",
        "Slack prefix, workspace numbers and a random end",
    ),
    Issued(
        "slack_token",
        r"xapp-",
        r"[0-9]-[A-Z0-9]+-[0-9]+-[A-Za-z0-9]{32,}",
        "prefix and parts of a Slack app token",
    ),
    Issued(
        "stripe_key",
        r"(?:[sr]k_(?:live|test)_|whsec_)",
        r"[A-Za-z0-9]{24,}",
        "Stripe prefix and a body of at least 24 characters",
    ),
    Issued(
        "google_api_key",
        r"AIza",
        r"[A-Za-z0-9_\-]{35}",
        "Google prefix and 35 characters",
    ),
    Issued(
        "anthropic_key",
        r"sk-ant-",
        r"(?:api|admin|oat|ort|sid)\d\d-[A-Za-z0-9_\-]{40,}",
        "Anthropic prefix and a body of at least 40 characters",
    ),
    Issued(
        "openai_key",
        r"sk-",
        r"(?:(?:proj|svcacct|admin|None)-)?[A-Za-z0-9_\-]{16,}T3BlbkFJ[A-Za-z0-9_\-]{16,}"
        r"|(?:proj|svcacct|admin)-[A-Za-z0-9_\-]{40,}|[A-Za-z0-9]{48}",
        "OpenAI prefix and a body of its length",
    ),
    Issued(
        "huggingface_token",
        r"hf_",
        r"[A-Za-z0-9]{34,37}",
        "Hugging Face prefix and 34 to 37 characters",
    ),
    Issued(
        "npm_token",
        r"npm_",
        r"[A-Za-z0-9]{36}",
        "npm prefix, CRC-32 checksum holds",
        crc_base62,
    ),
    Issued(
        "pypi_token",
        r"pypi-",
        r"AgE[A-Za-z0-9_\-]{50,}",
        "PyPI prefix and the start of a macaroon",
    ),
    Issued(
        "sendgrid_key",
        r"SG\.",
        r"[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}",
        "SendGrid prefix and bodies of 22 and 43 characters",
    ),
    Issued(
        "twilio_key",
        r"SK",
        r"[0-9a-f]{32}",
        "Twilio prefix and 32 hexadecimal digits",
    ),
)
_CANDIDATE = (
    r"\b(?:" + "|".join(dict.fromkeys(each.start for each in _TOKENS)) + r")[A-Za-z0-9_.\-]+"
)
_READERS = tuple((each, re.compile(f"({each.start})({each.body})")) for each in _TOKENS)
_LONGEST_TOKEN = 512
_LEAST_HALF_BITS = 5

# No prefix: the three characters before the sign are random.
_AZURE_FORM = r"\b[A-Za-z0-9_~.\-]{3}[78]Q~[A-Za-z0-9_~.\-]{31,34}"
_TELEGRAM = r"\b(?:bot)?\d{8,10}:AA[A-Za-z0-9_\-]{33}"
_WEBHOOK = (
    r"https://hooks\.slack\.com/(?:services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]+"
    r"|(?:workflows|triggers)/T?[A-Z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]+)"
)
_JWT = r"\beyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"
_KEY_BLOCK = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-[23]:"
PATTERNS = (_CANDIDATE, _TELEGRAM, _WEBHOOK, _JWT, _KEY_BLOCK, _AZURE_FORM)
_KEY_END = re.compile(rb"-----END [A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"(?:\s|\\+[nr]|[A-Za-z-]+: [^\r\n\\]*|[\"'+>|])*[A-Za-z0-9+/=]{16,}")


def issued_secrets(text: Scanned) -> Iterator[Found]:
    """Find keys and tokens that can be told by their form."""
    yield from _tokens(text)
    yield from _telegram(text)
    yield from _webhooks(text)
    yield from _jwts(text)
    yield from _key_blocks(text)
    yield from _azure_secrets(text)


def _tokens(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_CANDIDATE):
        piece = text.piece(start, min(end, start + _LONGEST_TOKEN))
        for kind, reader in _READERS:
            found = reader.match(piece)
            if found is not None and _is_token(kind, found, piece):
                yield Found(kind.kind, start, start + found.end(), kind.reason)
                break


def _is_token(kind: Issued, found: re.Match[str], piece: str) -> bool:
    following, body = piece[found.end() : found.end() + 1], found[2]
    if following and (following.isalnum() or following == "_"):
        return False
    if kind.check is not None:
        return kind.check(body)
    return is_varied(body, _LEAST_HALF_BITS) and not is_placeholder(body)


def _telegram(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_TELEGRAM):
        following = text.after(end, 1)
        first = start + 3 if text.after(start, 3) == "bot" else start
        if not (following.isalnum() or following in {"_", "-"}):
            reason = "a bot's number, a colon and 35 characters that start with AA"
            yield Found("telegram_bot_token", first, end, reason)


def _webhooks(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_WEBHOOK):
        last = text.piece(max(start, end - 64), end).rpartition("/")[2]
        if len(last) >= 18 and is_varied(last, _LEAST_HALF_BITS) and not is_placeholder(last):
            reason = "an address of Slack's webhooks with a random end"
            yield Found("slack_webhook", start, end, reason)


def _jwts(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_JWT):
        header = text.piece(start, min(end, start + 4 * _LONGEST_TOKEN)).partition(".")[0]
        if _has_algorithm(header):
            reason = "three base64url parts, the first is a JSON header with an algorithm"
            yield Found("jwt", start, end, reason)


def _has_algorithm(header: str) -> bool:
    try:
        value = json.loads(urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("alg"), str)


def _key_blocks(text: Scanned) -> Iterator[Found]:
    """Find private keys; one that is cut off reaches to the end of the text."""
    done = 0
    for start, end in text.spans(_KEY_BLOCK):
        if start < done or not _KEY_BODY.match(text.after(end, 512)):
            continue
        last = _KEY_END.search(text.data, end)
        done = len(text.data) if last is None else last.end()
        yield Found("private_key", start, done, "the first line of a private key, then its body")


def _azure_secrets(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_AZURE_FORM):
        if is_varied(text.piece(start, end), _LEAST_HALF_BITS):
            reason = "the sign of an Azure client secret among characters of its number"
            yield Found("azure_client_secret", start, end, reason)
