"""Sensors: what happens outside, and the workflows that it starts."""
