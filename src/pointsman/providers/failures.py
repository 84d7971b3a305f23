"""What a provider's error means: its class, when to come back, whether it is a refusal.

Companion §2.2. The words of a provider may repeat the user's: they stay in the body of an error,
its message holds the provider's code alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.providers.port import ErrorClass, UpstreamError

LONGEST_RETRY_AFTER_S = 60.0

_BY_STATUS: Final[dict[int, ErrorClass]] = {
    401: "auth",
    403: "auth",
    408: "network",
    413: "context_overflow",
    429: "rate_limit",
}

_BY_CODE: Final[dict[str, ErrorClass]] = {
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "auth",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "insufficient_quota": "rate_limit",
    "overloaded_error": "server_error",
    "api_error": "server_error",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "timeout_error": "timeout",
    "invalid_request_error": "invalid_request",
    "not_found_error": "invalid_request",
    "UNAUTHENTICATED": "auth",
    "PERMISSION_DENIED": "auth",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAVAILABLE": "server_error",
    "INTERNAL": "server_error",
    "INVALID_ARGUMENT": "invalid_request",
    "ThrottlingException": "rate_limit",
    "InternalServerException": "server_error",
    "ModelStreamErrorException": "server_error",
    "ServiceUnavailableException": "server_error",
    "ModelTimeoutException": "timeout",
    "ValidationException": "invalid_request",
}
"""For errors that come without a status: inside an answer or a stream."""

_AMAZON_KIND: Final = "x-amzn-errortype"
_BY_AMAZON_KIND: Final[dict[str, ErrorClass]] = {
    "ModelErrorException": "server_error",
    "ModelTimeoutException": "timeout",
    "ServiceQuotaExceededException": "rate_limit",
    "ExpiredTokenException": "auth",
    "UnrecognizedClientException": "auth",
    "IncompleteSignature": "auth",
    "InvalidSignatureException": "auth",
}
"""For errors whose status says something else to us."""

_OVERFLOW_CODES = frozenset(
    {"context_length_exceeded", "request_too_large", "exceed_context_size_error"}
)
_OVERFLOW_WORDS: Final = (
    "maximum context length",
    "prompt is too long",
    "exceeds the context window",
    "exceed the context window",
    "exceed context limit",
    "available context size",
    "context length exceeded",
    "exceeds the model's context",
    "input is too long for",
    "exceeds the maximum number of tokens",
)

_REFUSAL_CODES = frozenset(
    {
        "content_policy_violation",
        "content_filter",
        "moderation_blocked",
        "invalid_prompt",
        "cyber_policy_violation",
        "responsibleaipolicyviolation",
    }
)
_REFUSAL_WORDS: Final = (
    "content policy",
    "usage policy",
    "usage policies",
    "content management policy",
    "flagged as potentially violating",
    "requires moderation",
    "blocked by content filtering",
)

_SECONDS = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)


class Complaint(Struct, frozen=True):
    """What an error's body says: codes, most telling first, and words."""

    codes: tuple[str, ...] = ()
    said: str = ""

    @property
    def words(self) -> str:
        """Its text, in lower case."""
        return self.said.lower()

    @property
    def is_overflow(self) -> bool:
        """Tell whether the prompt is longer than the model can take."""
        return self._says(_OVERFLOW_CODES, _OVERFLOW_WORDS)

    @property
    def is_refusal(self) -> bool:
        """Tell whether the provider's content policy refuses the request."""
        return self._says(_REFUSAL_CODES, _REFUSAL_WORDS)

    def _says(self, codes: frozenset[str], words: tuple[str, ...]) -> bool:
        return any(code.lower() in codes for code in self.codes) or any(
            each in self.words for each in words
        )


def complaint_of(body: bytes) -> Complaint | None:
    """Read the error in a body, in any provider's shape; None when there is none."""
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, str):
        return _complaint(value.get("code"), None, None, error)
    if isinstance(error, dict):
        inner = error.get("innererror")
        deeper = inner.get("code") if isinstance(inner, dict) else _reason(error)
        kind = error.get("type") or error.get("status")
        return _complaint(error.get("code"), kind, deeper, error.get("message"))
    # Amazon tells the kind of an error in a header, and words alone in the body.
    is_flat = isinstance(value.get("message"), str) and ("code" in value or len(value) == 1)
    if is_flat or value.get("object") == "error" or value.get("type") == "error":
        words = _words(value.get("message"))
        return _complaint(value.get("code"), value.get("type"), None, words)
    return _complaint(None, None, None, _words(value)) if "detail" in value else None


def _reason(error: dict[str, object]) -> object:
    """Return the reason in the details of an error of Google's."""
    details = error.get("details")
    listed = details if isinstance(details, list) else []
    return next(
        (each["reason"] for each in listed if isinstance(each, dict) and "reason" in each), None
    )


def _words(told: object) -> object:
    """Return the words of a message; some servers list each refused field."""
    detail = told.get("detail") if isinstance(told, dict) else told
    if not isinstance(detail, list):
        return detail
    listed = [each for each in detail if isinstance(each, dict)]
    return "; ".join(f"{_place(each.get('loc'))}{each.get('msg', '')}" for each in listed)


def _place(places: object) -> str:
    if not isinstance(places, list):
        return ""
    return ".".join(str(each) for each in places if each != "body") + ": "


def _complaint(code: object, kind: object, deeper: object, words: object) -> Complaint:
    codes = [each for each in (code, kind, deeper) if isinstance(each, str)]
    return Complaint(
        tuple(each for each in codes if _CODE.fullmatch(each)),
        words if isinstance(words, str) else "",
    )


def failure_of(
    name: str, status: int, headers: Mapping[str, str], body: bytes, now_s: float
) -> UpstreamError:
    """Return the error that an answer with a status of 300 and more stands for."""
    if status < 400:
        message = f"`{name}` answered {status} with a redirect, and redirects are not followed"
        return UpstreamError(message, error_class="other", status=status)
    complaint = complaint_of(body) or Complaint()
    if kind := headers.get(_AMAZON_KIND, "").partition(":")[0]:
        complaint = _complaint(kind, None, None, complaint.said)
    is_refusal = status < 500 and complaint.is_refusal
    detail = f": {complaint.codes[0]}" if complaint.codes else ""
    return UpstreamError(
        f"`{name}` answered {status}{detail}",
        error_class=_class_of(status, complaint, is_refusal=is_refusal),
        status=status,
        body=body,
        retry_after_s=retry_after_s(headers, now_s),
        is_policy_refusal=is_refusal,
        said=complaint.said,
        headers=headers,
    )


def _class_of(status: int, complaint: Complaint, *, is_refusal: bool) -> ErrorClass:
    if is_refusal:
        # Another key would be refused just the same, so it is no matter of the key.
        return "invalid_request"
    if complaint.codes and complaint.codes[0] in _BY_AMAZON_KIND:
        return _BY_AMAZON_KIND[complaint.codes[0]]
    if status == 400 and "API_KEY_INVALID" in complaint.codes:
        return "auth"  # as Google says it
    if status in (400, 422, 500) and complaint.is_overflow:
        return "context_overflow"
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "invalid_request")


def failure_inside(name: str, body: bytes) -> UpstreamError | None:
    """Return the error inside an answer or an event of a stream that began well."""
    complaint = complaint_of(body)
    if complaint is None:
        return None
    known = [_BY_CODE[code] for code in complaint.codes if code in _BY_CODE]
    error_class: ErrorClass = known[0] if known else "other"
    if complaint.is_overflow:
        error_class = "context_overflow"
    if complaint.is_refusal:
        error_class = "invalid_request"
    detail = f": {complaint.codes[0]}" if complaint.codes else ""
    return UpstreamError(
        f"`{name}` gave an error as its answer{detail}",
        error_class=error_class,
        status=200,
        body=body,
        is_policy_refusal=complaint.is_refusal,
        said=complaint.said,
    )


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return how long the provider asks to wait, at most a minute; None when it does not say."""
    millis = headers.get("retry-after-ms", "").strip()
    if _SECONDS.fullmatch(millis):
        return min(float(millis) / 1000, LONGEST_RETRY_AFTER_S)
    text = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), LONGEST_RETRY_AFTER_S)
    at = _date_s(text)
    if at is None:
        return None
    # The provider's own clock tells how far away its date is, however wrong that clock may be.
    since = _date_s(headers.get("date", ""))
    return min(max(at - (now_s if since is None else since), 0.0), LONGEST_RETRY_AFTER_S)


def _date_s(text: str) -> float | None:
    if len(text) > 64:
        return None
    try:
        parsed = parsedate_tz(text)
        if parsed is None or not _is_real(parsed[1:6]):
            return None
        return float(mktime_tz(parsed))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _is_real(fields: tuple[int, ...]) -> bool:
    """Tell whether month, day and time exist; the parser lets day 99 run into later months."""
    limits = ((1, 12), (1, 31), (0, 23), (0, 59), (0, 60))
    return all(low <= each <= high for each, (low, high) in zip(fields, limits, strict=True))
