"""Models and providers as a decision knows them: prices, capabilities, availability."""
