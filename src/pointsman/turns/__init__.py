"""Which model takes this turn? Document 002, as a pure function of a policy and facts."""
