"""The stages of the example. Each gets the run's context and gives back a JSON value."""  # noqa: INP001 - stands beside its workflow

import hashlib
import os
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent


def scored(context: dict[str, Any]) -> dict[str, Any]:
    """Rate a draft by what can be counted: its length, its heading, what is still open."""
    path = Path(context["path"])
    text = path.read_text(encoding="utf-8")
    words, open_points = len(text.split()), text.count("(open)")
    score = 100 - min(max(0, 40 - words), 40) - 15 * open_points
    score -= 0 if text.startswith("# ") else 20
    return {
        "id": path.stem,
        "version": hashlib.sha256(text.encode()).hexdigest()[:12],
        "quality_score": max(score, 0) / 100,
        "open_points": open_points,
        "severity": "critical" if "security" in text.lower() else "normal",
        "words": words,
    }


def announced(context: dict[str, Any]) -> dict[str, Any]:
    """Announce a draft with the prompt that was chosen; the stage's own name says which."""
    return _written("announced", context)


def handed_on(context: dict[str, Any]) -> dict[str, Any]:
    """Hand a draft on to whoever the stage is named for."""
    return _written("handed-on", context)


def ignored(context: dict[str, Any]) -> dict[str, Any]:
    """Leave a file alone."""
    return {"ignored": context["event"]["data"]["file_name"]}


def _written(folder: str, context: dict[str, Any]) -> dict[str, Any]:
    # The same file again where a stage is done twice: that does no harm.
    stage, artifact = os.environ["POINTSMAN_STAGE"], context["artifact"]
    target = HOME / folder
    target.mkdir(exist_ok=True)
    (target / f"{artifact['id']}.txt").write_text(f"{stage}\n", encoding="utf-8")
    return {"stage": stage}
