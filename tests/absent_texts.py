"""A content store that has no text, for replays that must not need one."""

from pointsman.errors import MissingSnapshot
from pointsman.kernel.content import Sealed


def no_texts(text: Sealed) -> str:
    raise MissingSnapshot(f"the text `{text.digest}` is not at hand")
