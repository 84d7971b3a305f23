"""The world gathered into facts, facts ruled, and rulings recorded: once, for every surface."""
