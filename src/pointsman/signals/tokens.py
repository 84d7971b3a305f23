"""Token counts: a model's own vocabulary where it is known, else one for all, which estimates.

The name of the vocabulary stands in the facts, so that an estimate can be told from a count.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import splintr

from pointsman.kernel.columns import ascii_lower

TOKENIZER = "o200k_base"

_OWN: Final = (
    ("gpt-4o", "o200k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("gpt-oss", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("text-embedding-3", "cl100k_base"),
    ("llama3", "llama3"),
    ("llama-3", "llama3"),
    ("meta-llama-3", "llama3"),
    ("codellama", "codellama"),
    ("llama2", "llama2"),
    ("llama-2", "llama2"),
    ("deepseek-v3", "deepseek_v3"),
    ("phi4", "phi4"),
    ("phi-4", "phi4"),
    ("olmo2", "olmo2"),
)
"""Names of models begin like this; the first that fits counts."""


class Counted(NamedTuple):
    """A count, by which vocabulary, and whether it is the model's own."""

    tokens: int
    tokenizer: str
    is_exact: bool


@cache
def _tokenizer(name: str) -> splintr.AnyTokenizer:
    # Loaded on first use: it costs more than most commands take.
    return splintr.Tokenizer.from_pretrained(name)


def count_tokens(text: str, tokenizer: str = TOKENIZER) -> int:
    """Count the tokens of a text; markers spelled out in it are text like any other."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return len(_tokenizer(tokenizer).encode_ordinary(text))


def tokenizer_of(model: str) -> tuple[str, bool]:
    """Name the vocabulary to count by, and tell whether it is the model's own."""
    parts = ascii_lower(model).replace("/", ":").split(":")
    for start, own in _OWN:
        if any(part.startswith(start) for part in parts):
            return own, True
    return TOKENIZER, False


def count_for_model(text: str, model: str) -> Counted:
    """Count the tokens that a text is to a model."""
    tokenizer, is_exact = tokenizer_of(model)
    return Counted(count_tokens(text, tokenizer), tokenizer, is_exact)
