"""Jobs of agents: their choice, their calls, their record and replay."""
