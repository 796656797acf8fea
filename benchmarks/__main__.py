"""`python -m benchmarks [NAME...]`: measures and prints; with names, only those parts."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks._cell import cell_results
from benchmarks._golds import gold_results
from benchmarks._measure import Result, peak_memory_mib, show
from benchmarks._projection import projection_results
from benchmarks._world import world_results
from churnbench.collector import collect_seldom

PARTS: dict[str, Callable[[], list[Result]]] = {
    "world": world_results,
    "projection": projection_results,
    "golds": gold_results,
    "cell": cell_results,
}


def main() -> int:
    """Runs the parts and prints one table."""
    collect_seldom()  # as the program does
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.stderr.write(f"benchmarks: no part {unknown[0]!r}; known: {', '.join(PARTS)}\n")
        return 2
    show([result for name in chosen for result in PARTS[name]()])
    sys.stdout.write(f"peak resident memory of this process: {peak_memory_mib():.0f} MiB\n")
    return 0


sys.exit(main())
