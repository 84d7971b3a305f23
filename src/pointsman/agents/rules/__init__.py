"""The rules of agents: how candidates are checked and scored, and what governed actions change."""
