"""Keeps the four sources as projections of the ledger."""
