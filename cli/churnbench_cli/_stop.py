"""`churnbench stop`: end the embedded PostgreSQL of this home."""

from __future__ import annotations

from churnbench.stores.postgres import stop_embedded
from churnbench_cli._home import opened_home
from churnbench_cli._output import say

__all__ = ["stop"]


async def stop() -> int:
    """Stop the embedded PostgreSQL of this home; nothing stored is lost."""
    async with opened_home() as home:
        stopped = await stop_embedded(home.path)
        say(f"stopped the PostgreSQL of {home.path}" if stopped else f"no PostgreSQL runs for {home.path}")
    return 0
