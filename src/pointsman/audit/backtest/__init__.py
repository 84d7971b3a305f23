"""Backtests: recorded turns decided again under another policy."""
