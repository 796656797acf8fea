"""Who uses the embedded PostgreSQL of a home: leases that the kernel gives back when their holder dies."""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from churnbench.errors import UsageError
from churnbench.stores._postmaster import Running, ensure_running, find_running, stop_running

__all__ = ["data_folder", "is_running", "release_all", "start", "stop"]

_leases: dict[Path, int] = {}
"""Home -> file descriptor of this process's lease: a shared lock on `postgres.lease`."""


def data_folder(home: Path) -> Path:
    """Where a home's server keeps its data."""
    return home / "postgres"


@contextmanager
def _locked(home: Path) -> Iterator[int]:
    """The lock under which the server of a home is started and stopped."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        fd = os.open(home / "postgres.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write to {home}: {error.strerror}; set CHURNBENCH_HOME to a writable folder"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _start(home: Path) -> Running:
    with _locked(home) as lock_fd:
        if home not in _leases:
            fd = os.open(home / "postgres.lease", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(fd, fcntl.LOCK_SH)
            _leases[home] = fd
        return ensure_running(data_folder(home), lock_fd)


async def start(home: Path) -> Running:
    """The running server of a home, started if needed; this process holds a lease from now on."""
    return await asyncio.to_thread(_start, home)


def _release(home: Path) -> None:
    """Gives the lease back; whoever is last stops the server."""
    with _locked(home):
        fd = _leases.pop(home)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        finally:
            os.close(fd)
        stop_running(data_folder(home))


@atexit.register
def release_all() -> None:
    """Gives all leases of this process back; called at its end."""
    for home in list(_leases):
        with suppress(Exception):
            _release(home)


def _stop(home: Path) -> bool:
    if not data_folder(home).exists():
        return False
    with _locked(home):
        return stop_running(data_folder(home))


async def stop(home: Path) -> bool:
    """Stops the server of a home, whoever uses it; False where none runs."""
    return await asyncio.to_thread(_stop, home)


def is_running(home: Path) -> bool:
    """Whether the server of a home is up."""
    return find_running(data_folder(home)) is not None
