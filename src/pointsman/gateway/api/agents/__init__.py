"""Agents over HTTP: the choice of one, the modules, a job's mind."""
