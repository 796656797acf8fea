"""Locks between processes that leave no file behind, and that Ctrl-C ends the waiting for."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from churnbench.errors import UsageError

__all__ = ["HeldError", "Locks"]

_POLL_SECONDS = 0.05


class HeldError(UsageError):
    """Another process holds the lock."""


class Locks:
    """Named locks, a file each, which the kernel frees when their holder dies.

    A holder removes its file while it holds it. So whoever has locked a file looks whether the name still is that
    file, and tries again if it is not.

    Args:
        folder: where the files are; made when the first lock is taken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def waiting(self, name: str, waits: Callable[[str], None] = lambda holder: None) -> AsyncIterator[None]:
        """Holds a lock, once nobody else does.

        Args:
            name: the lock.
            waits: told who holds it, each time that it is found held.
        """
        while (descriptor := self._take(name)) is None:
            waits(self._holder(name))
            await asyncio.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            self._give(name, descriptor)

    @asynccontextmanager
    async def at_once(self, name: str, what: str, patience: float = 1.0) -> AsyncIterator[None]:
        """Holds a lock that nobody holds.

        Args:
            name: the lock.
            what: is worked on by its holder, for the error.
            patience: seconds; others may look for a moment whether it is held.

        Raises:
            HeldError: somebody holds it.
        """
        deadline = time.monotonic() + patience
        while (descriptor := self._take(name)) is None:
            if time.monotonic() >= deadline:
                raise HeldError(f"{what} is being worked on by {self._holder(name)}; wait until it ends, or end it")
            await asyncio.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            self._give(name, descriptor)

    def held(self, name: str) -> bool:
        """Whether somebody holds a lock."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def names(self) -> list[str]:
        """The names of all lock files, held or left by a process that was killed."""
        return sorted(p.name.removesuffix(".lock") for p in self._folder.glob("*.lock"))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.lock"

    def _take(self, name: str) -> int | None:
        path = self._path(name)
        while True:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise UsageError(
                    f"cannot write to {self._folder}: {error.strerror}; set CHURNBENCH_HOME to a writable folder"
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                same = _same(descriptor, path)
                if same:
                    with suppress(OSError):  # a full disk; the name is for people alone
                        os.truncate(descriptor, 0)
                        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                return None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _give(self, name: str, descriptor: int) -> None:
        try:
            self._path(name).unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def _holder(self, name: str) -> str:
        try:
            pid = self._path(name).read_text()
        except OSError:
            pid = ""
        return f"the process {pid}" if pid else "another process"


def _same(descriptor: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (mine.st_dev, mine.st_ino) == (found.st_dev, found.st_ino)
