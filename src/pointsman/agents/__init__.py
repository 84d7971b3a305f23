"""Which agent takes a job, how deep and with how many tokens. Documents 000 and 004."""
