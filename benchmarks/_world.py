"""Building and publishing the reference world, beside bare draws and bare appends."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._measure import Result, best
from churnbench.clock import SystemClock
from churnbench.domain import find_domain
from churnbench.log import SqliteLog
from churnbench.worlds import WorldSpec
from churnbench_producers import publish_world

__all__ = ["reference_spec", "world_results"]


def reference_spec() -> WorldSpec:
    """The reference world."""
    domain = find_domain("sam")
    return WorldSpec(domain.name, domain.version, "reference", domain.parameters("reference", {}), 42)


def bare_draws() -> None:
    """The scalar draws of 180 days as the world makes them, and nothing else."""
    rng = np.random.default_rng(42)
    for _ in range(40):
        round(rng.uniform(20, 500), 2)
    for _ in range(650):
        int(rng.integers(0, 40))
    for _ in range(180):
        for mean in (1.8, 1.2, 3.5, 0.15, 0.20, 0.6):
            rng.poisson(mean)
        for _ in range(7):
            rng.random()
            rng.integers(0, 400)
        for _ in range(300):
            head = rng.random() < 0.6
            rng.integers(0, 40 if head else 400)
            head = rng.random() < 0.6
            rng.integers(0, 4 if head else 40)
            int(rng.integers(5, 180))
            int(rng.integers(0, 500))


def bare_append(folder: Path, values: list[bytes]) -> None:
    """The same bytes into one SQLite table, in batches, with nothing checked."""
    path = folder / "bare.db"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE record (pos INTEGER PRIMARY KEY, ts INTEGER, value BLOB)")
    for start in range(0, len(values), 4000):
        connection.execute("BEGIN")
        chunk = values[start : start + 4000]
        connection.executemany("INSERT INTO record VALUES (?, ?, ?)", [(start + n, 0, v) for n, v in enumerate(chunk)])
        connection.execute("COMMIT")
    connection.close()


def world_results() -> list[Result]:
    """Build and publish, beside the bare limit."""
    spec, domain = reference_spec(), find_domain("sam")
    values = [domain.codec.encode(event) for event in domain.simulate(spec.parameters, spec.seed)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def publish() -> int:
            path = folder / "log.db"
            for old in folder.glob("log.db*"):
                old.unlink()

            async def work() -> int:
                log = SqliteLog(path)
                published = await publish_world(log, domain, spec, SystemClock())
                await log.close()
                return published.manifest.events

            return asyncio.run(work())

        draws, _ = best(bare_draws)
        appends, _ = best(lambda: bare_append(folder, values))
        seconds, events = best(publish)
    note = f"{events:,} events; bare = draws {draws:.2f} s + append {appends:.2f} s"
    return [Result("build and publish the reference world", seconds, draws + appends, 4, note)]
