"""Where servers are kept, and how one is put there whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_dir

__all__ = ["NotInstallableError", "cached", "need", "run"]


class NotInstallableError(Exception):
    """A tool that the installation needs is not there, or failed; the text says which."""


def _folder() -> Path:
    return Path(os.environ.get("CHURNBENCH_CACHE") or user_cache_dir("churnbench")) / "servers"


def need(*tools: str) -> None:
    """Checks that programs are on the PATH.

    Raises:
        NotInstallableError: one is not.
    """
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise NotInstallableError(f"not on the PATH: {', '.join(missing)}")


def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Runs an installer at low priority; its standard output.

    Raises:
        NotInstallableError: it failed; with the end of what it printed.
    """
    if shutil.which("nice"):
        command = ["nice", "-n", "19", *command]
    done = subprocess.run(  # noqa: S603 - fixed commands of this package
        command, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        end = (done.stdout + done.stderr).strip()[-2000:]
        raise NotInstallableError(f"`{' '.join(command)}` exited with {done.returncode}: {end}")
    return done.stdout


def cached(name: str, make: Callable[[Path], None], *, final: bool = False) -> Path:
    """The folder `name` of the cache, made by `make(folder)` where it is missing; processes wait for each other.

    Args:
        name: with the version in it, so that another version is another folder.
        make: fills an empty folder.
        final: fill it under its own name, for what cannot be moved afterwards (an environment); a half-made one
            is recognized by its missing stamp and made anew.
    """
    base = _folder()
    base.mkdir(parents=True, exist_ok=True)
    target, stamp = base / name, base / f"{name}.done"
    with FileLock(base / f"{name}.lock"):
        if target.is_dir() and stamp.is_file():
            return target
        shutil.rmtree(target, ignore_errors=True)
        stamp.unlink(missing_ok=True)
        folder = target if final else Path(tempfile.mkdtemp(prefix=f"{name}.", dir=base))
        folder.mkdir(exist_ok=True)
        try:
            make(folder)
            if not final:
                folder.rename(target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        stamp.touch()
    return target
