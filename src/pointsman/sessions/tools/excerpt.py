"""Excerpts of long texts: the beginning, the end, and the size of the gap between.

Memory stays flat however much is written into one.
"""

from __future__ import annotations

from collections import deque

MOST_CHARACTERS = 48_000
"""The most one call may add to the conversation: about 12,000 tokens."""


class Excerpt:
    """Collects text piece by piece; keeps the first and the last of it."""

    def __init__(self, most: int = MOST_CHARACTERS) -> None:
        self._head_left = most * 2 // 3
        self._tail_most = most - self._head_left
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.size = 0

    def write(self, text: str) -> None:
        """Take the next piece."""
        self.size += len(text)
        if self._head_left:
            self._head.append(text[: self._head_left])
            text = text[self._head_left :]
            self._head_left -= len(self._head[-1])
        if text:
            self._keep(text[-self._tail_most :])

    def _keep(self, text: str) -> None:
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= self._tail_most:
            self._tail_size -= len(self._tail.popleft())
        if len(self._tail) > 64:
            # Many small pieces would cost more than the text in them.
            joined = "".join(self._tail)[-self._tail_most :]
            self._tail, self._tail_size = deque([joined]), len(joined)

    def text(self) -> str:
        """Return the excerpt; a line in place of the gap gives its size."""
        head, tail = "".join(self._head), "".join(self._tail)[-self._tail_most :]
        if self.size == len(head) + len(tail):
            return head + tail
        head, tail = _to_line_end(head), _from_line_start(tail)
        gone = self.size - len(head) - len(tail)
        return f"{head}\n[… {gone} of {self.size} characters left out here …]\n{tail}"


def _to_line_end(head: str) -> str:
    at = head.rfind("\n")
    # A last line that is most of the text is cut in itself.
    return head[:at] if at > len(head) * 3 // 4 else head


def _from_line_start(tail: str) -> str:
    at = tail.find("\n")
    return tail[at + 1 :] if 0 <= at < len(tail) // 4 else tail
