"""What a run is to do: times, cells of a study, and the configuration that its hash covers."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from churnbench.clock import DAY_MS, parse_time
from churnbench.config import Settings
from churnbench.domain import Domain, Task
from churnbench.errors import NotFoundError, UsageError
from churnbench.events import from_millis, time_text
from churnbench.runs import Manifest
from churnbench.worlds import WorldManifest

__all__ = ["WINDOWS", "Cell", "cell_config", "check_cell", "check_times", "default_time", "provenance", "run_settings"]

WINDOWS = {1: 1, 14: 14, 28: 29}
"""Window in days -> days from T' to T. The published 28-day window begins 29 days before T."""

_QUESTION_SHARE = 0.65
"""Where in a world's span questions are asked unless told: day 117 of the 180 of the published world."""

READERS = ("scripted",)
ARMS = ("grounding",)


def default_time(world: WorldManifest | tuple[int, int]) -> int:
    """The time of the questions where none is given: 65 % of the span, in whole days."""
    start_ms, end_ms = (world.start_ms, world.end_ms) if isinstance(world, WorldManifest) else world
    return start_ms + int((end_ms - start_ms) * _QUESTION_SHARE / DAY_MS) * DAY_MS


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a study.

    Attributes:
        t_prime_ms: when the staged copy is made.
        t_ms: when the questions are asked.
        window: the window in days, None where the times were given.
        refresh: the refresh policy.
        rule: when a lapsed class is refreshed.
        way: how a staged table is refreshed.
        registry: the registry's name.
        arm: the architecture.
        reader: who answers.
    """

    t_prime_ms: int
    t_ms: int
    window: int | None
    refresh: str
    rule: str = "exceeds"
    way: Literal["replay", "extract"] = "replay"
    registry: str = "paper"
    arm: str = "grounding"
    reader: str = "scripted"

    @classmethod
    def of(cls, manifest: Manifest) -> Cell:
        """The cell that a run's manifest states."""
        config = manifest.config
        return cls(
            t_prime_ms=parse_time(config["t_prime"]),
            t_ms=parse_time(config["t"]),
            window=config["window"],
            refresh=config["refresh"],
            rule=config["rule"],
            way=config["refresh_by"],
            registry=config["registry"],
            arm=config["arm"],
            reader=config["reader"],
        )

    @property
    def label(self) -> str:
        """For progress bars and run ids."""
        window = f"{self.window}d" if self.window is not None else "walk"
        return f"{window}-{self.refresh}"


def check_times(world: WorldManifest, t_prime_ms: int, t_ms: int) -> None:
    """Refuses times that no run can have.

    Raises:
        UsageError: T' after T, or one of them outside the world.
    """
    if t_prime_ms > t_ms:
        raise UsageError(
            f"T' {time_text(t_prime_ms)} is after T {time_text(t_ms)}; the staged copy is made before the questions"
        )
    for name, at_ms in (("T'", t_prime_ms), ("T", t_ms)):
        if not world.start_ms <= at_ms < world.end_ms:
            raise UsageError(
                f"{name} {time_text(at_ms)} is outside the world {world.spec.name}, "
                f"which goes from {time_text(world.start_ms)} to before {time_text(world.end_ms)}"
            )


def check_cell(domain: Domain, cell: Cell) -> None:
    """Refuses names that are not there.

    Raises:
        NotFoundError: an unknown registry, arm or reader.
    """
    for what, name, known in (
        ("registry", cell.registry, tuple(domain.registries)),
        ("arm", cell.arm, ARMS),
        ("reader", cell.reader, READERS),
    ):
        if name not in known:
            raise NotFoundError(f"no {what} {name!r}; known: {', '.join(known)}")


def cell_config(
    cell: Cell, world: WorldManifest, tasks: list[Task], settings: Settings, stores: dict[str, str], scorer: str
) -> dict[str, Any]:
    """Everything that can change an answer, as plain JSON values."""
    return {
        "world": {"name": world.spec.name, "sha256": world.sha256},
        "t_prime": time_text(cell.t_prime_ms),
        "t": time_text(cell.t_ms),
        "window": cell.window,
        "refresh": cell.refresh,
        "rule": cell.rule,
        "refresh_by": cell.way,
        "registry": cell.registry,
        "arm": cell.arm,
        "reader": cell.reader,
        "model": None,
        "prompts": None,
        "tasks": hashlib.sha256(msgspec.json.encode(tasks)).hexdigest(),
        "scorer": scorer,
        "profile": settings.profile,
        "saas_latency": settings.saas_latency,
        "stores": stores,
    }


def _git(*arguments: str) -> str | None:
    """What git says about the source tree, None outside one."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(Path(__file__).parent), *arguments],  # noqa: S607 - the user's git
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def provenance(created_ms: int) -> dict[str, Any]:
    """Code, packages and machine of a run: what cannot change an answer, but may explain one."""
    status = _git("status", "--porcelain")
    return {
        "churnbench": version("churnbench"),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "packages": {d.name: d.version for d in sorted(distributions(), key=lambda d: d.name.lower())},
        "machine": {"system": platform.system(), "processor": platform.machine(), "byteorder": sys.byteorder},
        "started": from_millis(created_ms).isoformat(),
    }


def run_settings(manifest: Manifest) -> dict[str, str]:
    """What a run was set to, name -> text, for people."""
    config, code = manifest.config, manifest.provenance
    commit = str(code.get("commit") or "")[:12]
    return {
        "T'": config["t_prime"],
        "T": config["t"],
        **{name: str(config[name]) for name in ("refresh", "rule", "refresh_by", "registry", "arm", "reader")},
        "stores": ", ".join(f"{name} {store}" for name, store in config["stores"].items()),
        "churnbench": " ".join(
            filter(None, [str(code.get("churnbench", "")), commit, "changed" * bool(code.get("dirty"))])
        ),
        "config hash": manifest.config_hash,
    }
