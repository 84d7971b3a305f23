"""Why a key was not taken. For logs and counters: callers are never told which of these it was."""

from __future__ import annotations

from pointsman.kernel.meaning import Meaning


class KeyRefusal(Meaning):
    """One reason; `meaning` is the sentence the documentation shows."""

    MISSING = "access.key_missing", "the call carries no key"
    MALFORMED = "access.key_malformed", "what the call carries is not written like a key"
    UNKNOWN = "access.key_unknown", "no such key was made here, or its secret is another"
    REVOKED = "access.key_revoked", "the key was revoked"
    EXPIRED = "access.key_expired", "the key's time is over"
