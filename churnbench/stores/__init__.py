"""Stores that stages share: `churnbench.stores.postgres`."""

__all__ = ["postgres"]
