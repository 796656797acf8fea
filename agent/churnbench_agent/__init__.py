"""Answers questions from staged tables, live sources and documents."""
