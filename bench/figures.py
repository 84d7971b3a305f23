"""Figures of the benches, rounded for their files."""

from __future__ import annotations


def round_figures(value: object) -> object:
    """Round every float in a value to four digits: more would differ from run to run."""
    if isinstance(value, dict):
        return {key: round_figures(item) for key, item in value.items()}
    if isinstance(value, list):
        return [round_figures(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
