"""The dashboard: page, logins, documentation."""
