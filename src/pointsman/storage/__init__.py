"""Where things are kept. Stores what it is given: ids and instants are made elsewhere."""
