"""What is done in a home: facts gathered, decisions recorded and carried out, records proved."""
