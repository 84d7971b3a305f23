"""One turn over HTTP: understood, ruled, recorded, carried out, and let out once it may be."""
