"""Stores that several stages reach: PostgreSQL, embedded or by URL."""
