"""Upstream models: what answers a turn, in this process's neighbourhood or across the network."""
