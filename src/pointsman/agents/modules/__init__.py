"""Modules of the fleet, their snapshot and the events that change it."""
