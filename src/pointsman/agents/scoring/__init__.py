"""How candidates are checked, scored and given a budget."""
