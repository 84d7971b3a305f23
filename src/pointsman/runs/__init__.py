"""Jobs over a whole home: verification, export, and what else runs in bulk."""
