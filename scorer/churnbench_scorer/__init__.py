"""Judges answers from the ledger alone."""
