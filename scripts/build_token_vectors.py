"""Make the static token vectors of `signals/token_vectors` from the weights of all-MiniLM-L6-v2.

    python scripts/build_token_vectors.py MODEL_DIR

MODEL_DIR holds `model.safetensors` and `vocab.txt` of sentence-transformers/all-MiniLM-L6-v2
(Apache-2.0). Taken are its input embeddings alone: centred, turned onto their 128 main axes, and
scaled by the logarithm of a token's place in the vocabulary, which is ordered by frequency.
Eigenvectors differ in their last bits from one machine to the next: the files are made once and
kept, never made anew on a user's machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

DIMENSIONS = 128
PEAK = 127
CLIPPED = 0.001
TARGET = Path(__file__).parents[1] / "src/pointsman/signals/token_vectors"


def embeddings(path: Path) -> npt.NDArray[np.float32]:
    """Read the one tensor that is needed out of a safetensors file."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))["embeddings.word_embeddings.weight"]
        start, end = entry["data_offsets"]
        file.seek(8 + size + start)
        return np.frombuffer(file.read(end - start), np.float32).reshape(entry["shape"])


def is_usable(token: str) -> bool:
    """Tell whether the reader of `signals.embedding` can ever ask for a token."""
    piece = token.removeprefix("##")
    return not token.startswith("[") and (len(piece) == 1 or (piece.isascii() and piece.isalnum()))


def main() -> None:
    """Write `tokens.txt` and `vectors.i8`."""
    folder = Path(sys.argv[1])
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    raw = embeddings(folder / "model.safetensors").astype(np.float64)
    centred = raw - raw.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    turned = centred @ axes[:, ::-1][:, :DIMENSIONS]
    turned *= np.log1p(np.arange(len(raw)))[:, None]
    kept = [place for place, token in enumerate(tokens[: len(raw)]) if is_usable(token)]
    peak = np.quantile(np.abs(turned[kept]), 1 - CLIPPED)
    whole = np.clip(np.rint(turned[kept] * (PEAK / peak)), -PEAK, PEAK).astype(np.int8)
    (TARGET / "tokens.txt").write_text("\n".join(tokens[place] for place in kept) + "\n", "utf-8")
    (TARGET / "vectors.i8").write_bytes(whole.tobytes())
    print(f"{len(kept)} tokens, {whole.nbytes} bytes")


if __name__ == "__main__":
    main()
