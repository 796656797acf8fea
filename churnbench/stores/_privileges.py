"""Running PostgreSQL, which refuses root, when root is who calls."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Runner", "own_folder", "runner_for"]


class Runner(NamedTuple):
    """How to start a program for a folder.

    Attributes:
        prefix: arguments before the program's own.
        user: options of `subprocess` that choose the user.
        uid: the user it runs as.
    """

    prefix: tuple[str, ...]
    user: Mapping[str, Any]
    uid: int

    def arguments(self, program: Path, *arguments: str) -> list[str]:
        """The whole command."""
        return [*self.prefix, str(program), *arguments]


def _owner(folder: Path) -> tuple[int, int]:
    """Whom root runs the server as: the folder's owner, or nobody where it is root's or does not exist."""
    try:
        found = folder.stat()
        if found.st_uid != 0:
            return found.st_uid, found.st_gid
    except FileNotFoundError:
        pass
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _with_capability(uid: int, gid: int) -> tuple[str, ...]:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    # The home and the installed binaries may stand under /root, which no other user may enter. The one capability
    # lets the server enter without opening these folders to everybody.
    prefix: Sequence[str] = (
        setpriv,
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
    )
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)  # noqa: S603 - fixed arguments
    return tuple(prefix) if tried.returncode == 0 else ()


def runner_for(folder: Path) -> Runner:
    """How this process starts PostgreSQL on `folder`.

    As itself, unless it is root. Root starts it as the folder's owner (`nobody` for a new folder), keeping the
    capability to enter folders where `setpriv` (util-linux) can give it; else that user must be able to enter the
    home and the Python environment.
    """
    if os.geteuid() != 0:
        return Runner((), {}, os.geteuid())
    uid, gid = _owner(folder)
    prefix = _with_capability(uid, gid)
    if prefix:
        return Runner(prefix, {}, uid)
    return Runner((), {"user": uid, "group": gid, "extra_groups": []}, uid)


def own_folder(folder: Path, runner: Runner) -> None:
    """Makes `folder`, private to the runner's user."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, runner.uid, pwd.getpwuid(runner.uid).pw_gid)
    folder.chmod(0o700)
