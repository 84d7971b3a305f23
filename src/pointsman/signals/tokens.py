"""Token counts: one vocabulary for all models, named in the facts, so counts are estimates."""

from __future__ import annotations

from functools import cache

import splintr

TOKENIZER = "o200k_base"


@cache
def _tokenizer() -> splintr.AnyTokenizer:
    # Loaded on first use: it costs more than most commands take.
    return splintr.Tokenizer.from_pretrained(TOKENIZER)


def count_tokens(text: str) -> int:
    """Count the tokens of a text."""
    return len(_tokenizer().encode(text.encode("utf-8", "replace").decode()))
