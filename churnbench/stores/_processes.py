"""Which process is meant, when process ids come back and clocks are set."""

from __future__ import annotations

from pathlib import Path

import psutil

__all__ = ["command_line", "identity"]


def identity(pid: int) -> str | None:
    """Names the process `pid` for as long as the machine is up; None where there is no such process.

    The start time is what the kernel counts from its own start, where it can be had: the wall clock's would move
    with the clock.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return None if fields[0] in ("Z", "X") else f"{pid} {fields[19]}"
    except (OSError, IndexError):
        pass
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{pid} {process.create_time():.2f}"
    except psutil.Error:
        return None


def command_line(pid: int) -> list[str]:
    """The arguments that `pid` was started with; empty where there is no such process, or a dead one."""
    try:
        arguments: list[str] = psutil.Process(pid).cmdline()
        return arguments
    except psutil.Error:
        return []
