"""Failures of tools: one line that the model can act on."""

from __future__ import annotations

import errno
from typing import Final

from pointsman.errors import PointsmanError
from pointsman.kernel.document import escape
from pointsman.sessions.events.calls import ToolErrorClass

_CLASSES: Final[dict[int, ToolErrorClass]] = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ELOOP: "permission_denied",
    errno.ENAMETOOLONG: "validation_error",
}
_WORDS: Final = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "lies below something that is not a folder",
    errno.EACCES: "may not be opened: permission denied",
    errno.EPERM: "may not be changed: operation not permitted",
    errno.EROFS: "lies on a read-only disk",
    errno.ELOOP: "was changed into a link meanwhile",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "cannot be written: no space is left on the disk",
    errno.EDQUOT: "cannot be written: the disk quota is used up",
    errno.EFBIG: "cannot be written: it would be larger than files may be here",
    errno.EISDIR: "is a folder",
    errno.EEXIST: "exists already: use the mode `replace` or another path",
}


class CallFailed(PointsmanError):
    """the tool could not do this"""

    code = "tool.failed"
    exit_code = 1

    def __init__(
        self,
        error_class: ToolErrorClass,
        message: str = "",
        *,
        where: str = "",
        hint: str = "",
    ) -> None:
        self.error_class: ToolErrorClass = error_class
        super().__init__(message, where=where, hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        known = {"where": self.where, "hint": self.hint}
        return (CallFailed, (self.error_class, self.message), known)


def not_allowed(message: str) -> CallFailed:
    """Return the failure of a call that is not allowed."""
    return CallFailed("permission_denied", message)


def invalid_input(message: str) -> CallFailed:
    """Return the failure of a call whose input cannot be used."""
    return CallFailed("validation_error", message)


def from_os(error: OSError, path: str) -> CallFailed:
    """Return the failure of a system call, about the path as the model wrote it."""
    number = error.errno or 0
    words = _WORDS.get(number) or f"cannot be used: {(error.strerror or str(error)).lower()}"
    kind = _CLASSES.get(number, "execution_error")
    return CallFailed(kind, f"`{escape(path, 200)}` {words}")
