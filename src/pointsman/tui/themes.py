"""The two looks of the app: quiet, and legible at every line."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="pointsman-dark",
    primary="#7aa2c8",
    secondary="#9a8fc4",
    accent="#d0a45c",
    warning="#d9a441",
    error="#e07a6e",
    success="#7fb685",
    foreground="#d6d9dd",
    background="#15181c",
    surface="#1b1f24",
    panel="#23282e",
    dark=True,
)
LIGHT: Final = Theme(
    name="pointsman-light",
    primary="#2f5f8a",
    secondary="#5b4f91",
    accent="#8a5a00",
    warning="#8a5a00",
    error="#a8321f",
    success="#2c6e3f",
    foreground="#22262b",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e8e5de",
    dark=False,
)
