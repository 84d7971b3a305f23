"""Conversations: sessions are opened, driven, followed, and recovered after a crash."""
