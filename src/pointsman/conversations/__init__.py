"""Conversations: sessions opened, driven, followed, and opened again after whatever happened."""
