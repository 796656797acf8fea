"""The embedded PostgreSQL: one server for each home, shared by processes, started when it is needed."""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from churnbench.clock import SystemClock
from churnbench.errors import ChurnBenchError, SourceUnavailableError, UsageError
from churnbench.stores._cluster import OWNER, Cluster
from churnbench.stores._leases import Leases
from churnbench.stores._postgres_server import PostgresServer

__all__ = ["embedded_running", "embedded_server", "stop_embedded"]

_PATIENCE = 120.0
_leased: dict[Path, int] = {}
"""Homes whose server this process holds a lease on, and the process: a forked child's are not its own."""


@contextmanager
def _locked(home: Path) -> Iterator[int]:
    """Holds the lock of a home's server, which the kernel frees when its holder dies; its file descriptor."""
    clock = SystemClock()
    deadline = clock.monotonic() + _PATIENCE
    try:
        home.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(home / "postgres.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write to the home folder {home}: {error.strerror}; set CHURNBENCH_HOME to a writable folder"
        ) from error
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock.monotonic() > deadline:
                    raise SourceUnavailableError(
                        f"another process has held {home / 'postgres.lock'} for {_PATIENCE:g} s; end it, then try again"
                    ) from None
                time.sleep(0.02)
        yield descriptor
    finally:
        os.close(descriptor)


def _absolute(home: Path) -> Path:
    return home.expanduser().absolute()


def _cluster(home: Path) -> Cluster:
    return Cluster(home / "postgres")


def _leases(home: Path) -> Leases:
    return Leases(home / "postgres-leases")


def _start(home: Path) -> Path:
    with _locked(home) as lock:
        _leases(home).take()
        if not _leased:
            atexit.register(_release_all)
        _leased[home] = os.getpid()
        cluster = _cluster(home)
        cluster.start(lock)
        sockets = cluster.socket_folder()
    if sockets is None:
        raise SourceUnavailableError(f"the PostgreSQL of {home} ended as soon as it had started; try again")
    return sockets


def _stop(home: Path) -> bool:
    if not (home / "postgres").is_dir():
        return False
    with _locked(home):
        _leases(home).release()
        _leased.pop(home, None)
        return _cluster(home).stop()


def _release_all() -> None:
    """Ends this process's leases; whoever holds the last one stops the server."""
    for home, pid in list(_leased.items()):
        if pid != os.getpid() or not (home / "postgres").is_dir():
            continue
        try:
            with _locked(home):
                _leases(home).release()
                if not _leases(home).holders():
                    _cluster(home).stop()
        except (ChurnBenchError, OSError):
            # Nobody is left to tell; the next one to use the home finds the server or starts it.
            continue


async def embedded_server(home: Path) -> PostgresServer:
    """The server of `home`, started if it does not run.

    Its data is in `home/postgres`. It listens on a socket alone, outlives whoever started it, and ends with the
    last process that asked for it, where that process ends by itself; after a kill, the next start repairs
    what was left. New connections start it again where it was killed.

    Args:
        home: the folder of `CHURNBENCH_HOME`; any path, also under /root, with blanks, or too long for a socket.

    Raises:
        UsageError: the home cannot be written, or holds a cluster of another PostgreSQL.
        SourceUnavailableError: the server does not start.
    """
    home = _absolute(home)

    async def ensure() -> dict[str, str]:
        sockets = _cluster(home).socket_folder() if _leased.get(home) == os.getpid() else None
        if sockets is None:
            sockets = await asyncio.to_thread(_start, home)
        return {"host": str(sockets), "port": "5432", "user": OWNER, "dbname": "postgres", "sslmode": "disable"}

    return PostgresServer(await ensure(), ensure)


async def stop_embedded(home: Path) -> bool:
    """Stops the server of `home`, whoever uses it; False where none ran. Nothing stored is lost."""
    return await asyncio.to_thread(_stop, _absolute(home))


def embedded_running(home: Path) -> bool:
    """Whether the server of `home` runs and is ready."""
    return _cluster(_absolute(home)).socket_folder() is not None
