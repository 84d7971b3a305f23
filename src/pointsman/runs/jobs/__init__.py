"""Jobs of agents: asked for, run, recorded, shown, and run again from the record."""
