"""`churnbench doctor`: check what a run needs, and say what to do about what is missing."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from churnbench.domain import load_domains
from churnbench.errors import ChurnBenchError
from churnbench.events import time_text
from churnbench.stores.postgres import embedded_server, server_facts
from churnbench_cli._home import Home, opened_home
from churnbench_cli._options import Json
from churnbench_cli._output import print_json, print_table
from churnbench_projectors import make_embedder

__all__ = ["doctor"]

_FREE_BYTES = 1 << 30


class Check(NamedTuple):
    """One thing looked at: whether it is well, what was found, and what to do if not."""

    name: str
    well: bool
    found: str
    advice: str = ""


async def _python(home: Home) -> Check:
    return Check("python", sys.version_info >= (3, 11), platform.python_version(), "install Python 3.11 or later")


async def _home_folder(home: Home) -> Check:
    free = shutil.disk_usage(home.path).free
    found = f"{home.path}, {free / (1 << 30):.1f} GiB free"
    return Check("home", free > _FREE_BYTES, found, "free 1 GiB, or set CHURNBENCH_HOME to another disk")


async def _log(home: Home) -> Check:
    topics = await home.log.topics()
    return Check("log", True, f"SQLite, {len(topics)} topics")


async def _domains(home: Home) -> Check:
    return Check("domains", True, ", ".join(sorted(load_domains())))


async def _postgres(home: Home) -> Check:
    facts = await server_facts(await embedded_server(home.path))
    found = f"PostgreSQL {facts.version}, pgvector {facts.vector or 'missing'}"
    return Check("postgres", facts.vector is not None, found, "install pgvector on that server")


async def _clock(home: Home) -> Check:
    now = home.clock.now_ms()
    newest = max((p.stat().st_mtime for p in home.runs.iterdir()), default=0.0) if home.runs.is_dir() else 0.0
    return Check(
        "clock", now >= newest * 1000 - 60_000, f"{time_text(now)}", "the clock went back behind the newest run; set it"
    )


async def _embedder(home: Home) -> Check:
    embedder = make_embedder(home.settings.embedder)
    return Check("embedder", True, f"{embedder.name}, {embedder.dimensions} dimensions")


_CHECKS: tuple[tuple[str, Callable[[Home], Awaitable[Check]]], ...] = (
    ("python", _python),
    ("home", _home_folder),
    ("clock", _clock),
    ("log", _log),
    ("domains", _domains),
    ("postgres", _postgres),
    ("embedder", _embedder),
)


async def _checked(home: Home, name: str, check: Callable[[Home], Awaitable[Check]]) -> Check:
    try:
        return await check(home)
    except ChurnBenchError as error:
        return Check(name, False, "failed", str(error))


async def doctor(json: Json = False) -> int:
    """Check Python, the home folder, the log, the stores and the embedder; exit 1 if something is wrong."""
    async with opened_home() as home:
        checks = [await _checked(home, name, check) for name, check in _CHECKS]
    if json:
        print_json([check._asdict() for check in checks])
    else:
        print_table(
            "",
            ["", "", "found", "what to do"],
            [("ok" if c.well else "WRONG", c.name, c.found, "" if c.well else c.advice) for c in checks],
        )
    return 0 if all(check.well for check in checks) else 1
