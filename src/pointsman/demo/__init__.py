"""`pointsman demo`: a seeded day of a small team on five scripted models, on the real engine."""
