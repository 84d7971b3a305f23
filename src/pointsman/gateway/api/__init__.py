"""The product's own API and its dashboard: every route but those of models."""
