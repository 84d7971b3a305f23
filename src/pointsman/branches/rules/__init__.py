"""Rule tables: compiling, review and guardrails."""
