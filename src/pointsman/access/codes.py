"""Why a key was not taken. For logs and counters: callers are never told which of these it was."""

from __future__ import annotations

from enum import StrEnum


class KeyRefusal(StrEnum):
    """One reason; `meaning` is the sentence the documentation shows."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> KeyRefusal:
        """Make a member that is its code and carries its meaning."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    MISSING = "access.key_missing", "the call carries no key"
    MALFORMED = "access.key_malformed", "what the call carries is not written like a key"
    UNKNOWN = "access.key_unknown", "no such key was made here, or its secret is another"
    REVOKED = "access.key_revoked", "the key was revoked"
    EXPIRED = "access.key_expired", "the key's time is over"
