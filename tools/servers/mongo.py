"""A server of MongoDB's wire protocol, SecantusDB from PyPI in an environment of its own: needs only Python.

A stand-in for MongoDB in the tests, where no mongod can be installed; no part of the product. It is GPL-2.0.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools.servers._install import NotInstallableError, cached, run
from tools.servers._process import Server, answers, attach, ports, spawn

__all__ = ["VERSION", "install", "start"]

VERSION = "0.7.0b3"


def install() -> Path:
    """The server's program.

    Raises:
        NotInstallableError: no environment can be made, or the package cannot be installed.
    """
    tag = f"secantusdb-{VERSION}-py{sys.version_info.major}{sys.version_info.minor}"

    def make(folder: Path) -> None:
        python = folder / "bin" / "python"
        wanted = f"secantusdb=={VERSION}"
        if shutil.which("uv"):
            run(["uv", "venv", "--quiet", "--no-project", "--allow-existing", "--python", sys.executable, str(folder)])
            run(["uv", "pip", "install", "--quiet", "--python", str(python), wanted])
        else:
            run([sys.executable, "-m", "venv", str(folder)])
            run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted])
        if not (folder / "bin" / "secantusd-py").is_file():
            raise NotInstallableError(f"{wanted} brought no secantusd-py")

    return cached(tag, make, final=True) / "bin" / "secantusd-py"


def start(folder: Path) -> Server:
    """Starts a server over `folder`, or gives the one that runs there; an acknowledged write survives `kill`.

    Args:
        folder: its data; empty or missing for a new one.

    Returns:
        The server; `url` is a mongodb:// address.

    Raises:
        NotInstallableError: see `install`.
        StartError: it did not start.
    """
    folder = folder.absolute()
    running = attach(folder)
    if running is not None:
        return running
    program = install()
    port = ports(folder, "mongo")["mongo"]
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    command = [str(program), "--host", "127.0.0.1", "--port", str(port), "--storage-path", str(data)]
    return spawn(
        "mongo",
        f"mongodb://127.0.0.1:{port}",
        folder,
        [*command, "--log-level", "ERROR", "--sync-on-commit"],
        lambda _: answers(port),
    )
