"""Keeps the staged cache by a refresh policy."""
