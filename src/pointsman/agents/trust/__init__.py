"""How far a module is trusted: events folded into its trust and status."""
