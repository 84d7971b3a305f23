"""The day that `pointsman demo` tells: a small team, five scripted models, the real engine."""
