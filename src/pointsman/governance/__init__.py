"""Action requests, votes, quorum and council: pure values and rules."""
