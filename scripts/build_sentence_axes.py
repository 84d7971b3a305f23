"""Make the main axes of `signals/sentence_axes` from the weights of all-MiniLM-L6-v2.

    python scripts/build_sentence_axes.py MODEL_DIR

MODEL_DIR holds `model.safetensors` and `vocab.txt` of sentence-transformers/all-MiniLM-L6-v2
(Apache-2.0). The model reads the first 6,000 whole words of its vocabulary, each alone; the axes
are those along which what it makes of them differs most. Nothing that is measured in `bench` is
looked at. Eigenvectors differ in their last bits from one machine to the next: the file is made
once and kept, never made anew on a user's machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pointsman.signals.embedding import token_names
from pointsman.signals.minilm import pieces_of_text, sentence, use_one_thread
from pointsman.signals.minilm_file import compact, read_compact, read_tensors

DIMENSIONS = 128
PEAK = 127
WORDS = 6_000
TARGET = Path(__file__).parents[1] / "src/pointsman/signals/sentence_axes/axes.i8"


def main() -> None:
    """Write `axes.i8`."""
    folder = Path(sys.argv[1])
    use_one_thread()
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    tensors = read_tensors((folder / "model.safetensors").read_bytes())
    encoder = read_compact(compact(tensors, vocabulary))
    words = [each for each in token_names() if each.isascii() and each.isalpha() and len(each) > 1]
    found = np.array([sentence(encoder, pieces_of_text(word)) for word in words[:WORDS]])
    centred = found - found.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    kept = axes[:, ::-1][:, :DIMENSIONS]
    whole = np.rint(kept * (PEAK / np.abs(kept).max())).astype(np.int8)
    TARGET.write_bytes(whole.tobytes())
    share = values[::-1][:DIMENSIONS].sum() / values.sum()
    print(f"{WORDS} words, {whole.nbytes} bytes, {share:.0%} of what sets them apart")


if __name__ == "__main__":
    main()
