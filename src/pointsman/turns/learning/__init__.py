"""What a decision takes from past turns: patterns, evidence, calibration, trials."""
