"""How much a call used where its provider does not say: one estimate for every kind of call."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pointsman.providers.dialects.said import said_in_answer
from pointsman.providers.dialects.tap import Tap
from pointsman.providers.messages import Usage
from pointsman.providers.port import Dialect
from pointsman.signals.tokens import count_tokens


def output_estimate(text: str, events: int = 0, share: float = 1.0) -> int:
    """Return how many tokens an answer has: the larger of its events and its text.

    An event of a stream is a token at least; some providers send many words in one. `text` is that
    share of the answer which was kept.
    """
    counted = count_tokens(text)
    return max(1, events, counted if share >= 1 else int(counted / share))


class WholeAnswer(Struct, frozen=True):
    """An answer that came whole, in the provider's own bytes."""

    dialect: Dialect
    body: bytes
    usage: Usage

    def output_tokens(self) -> int:
        """Estimate its tokens."""
        return output_estimate(said_in_answer(self.dialect, self.body))


class StreamedAnswer(Struct, frozen=True):
    """An answer that comes in events, read along."""

    seen: Tap

    @property
    def usage(self) -> Usage:
        """What the provider told so far."""
        return self.seen.usage

    def output_tokens(self) -> int:
        """Estimate the tokens that came so far."""
        text, share = self.seen.said()
        return output_estimate(text, self.seen.events, share)


def completed_usage(told: Usage | None, input_tokens: int, output_tokens: int) -> Usage:
    """Return usage without gaps: what the provider told of an answer, the rest estimated."""
    told = told or Usage()
    return replace(
        told,
        input_tokens=input_tokens if told.input_tokens is None else told.input_tokens,
        output_tokens=max(output_tokens, told.output_tokens or 0),
    )
