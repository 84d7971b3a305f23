"""Learning from turns: counts, verdicts, shadow runs and reports."""
