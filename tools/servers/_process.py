"""A server as a process: started, waited for, recorded in its folder, and ended by its process id."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

__all__ = ["Server", "StartError", "answers", "attach", "ports", "spawn"]

_STATE = "server.json"
_PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections, one of which could take a killed server's port."""
_children: dict[int, subprocess.Popen[bytes]] = {}
"""Those that this process started, so that it reaps them."""


class StartError(Exception):
    """A server that ended, or did not get ready in time; with the end of its log."""


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        name: which kind.
        url: where clients find it: `host:port`, or a URL where its clients want one.
        pid: its process.
        started: the process's start time, so that another process that got the same id is never touched.
        folder: its data, log and configuration.
        extra: what else clients need, by name.
    """

    name: str
    url: str
    pid: int
    started: float
    folder: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    def _process(self) -> psutil.Process | None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.started) < 1 and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process() is not None

    @property
    def memory(self) -> int:
        """Bytes of memory that it holds, 0 where it has ended."""
        process = self._process()
        return int(process.memory_info().rss) if process is not None else 0

    def stop(self, grace: float = 20.0) -> None:
        """Ends it: asks first, kills after `grace` seconds. One that has ended is no error."""
        process = self._process()
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
                try:
                    process.wait(grace)
                except psutil.TimeoutExpired:
                    self.kill()
        self._reap()

    def kill(self) -> None:
        """Ends it as `kill -9` does, and waits until it is gone."""
        process = self._process()
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(20)
        self._reap()

    def _reap(self) -> None:
        child = _children.pop(self.pid, None)
        if child is not None:
            child.wait(20)

    def pause(self) -> None:
        """Stops its process without ending it (SIGSTOP): a server that does not answer."""
        process = self._process()
        if process is not None:
            process.suspend()

    def resume(self) -> None:
        """Lets a paused one go on."""
        process = self._process()
        if process is not None:
            process.resume()


def attach(folder: Path) -> Server | None:
    """The server that was started over `folder`, None where none runs."""
    try:
        state = json.loads((folder / _STATE).read_text())
    except (OSError, ValueError):
        return None
    server = Server(**{**state, "folder": Path(state["folder"])})
    return server if server.alive else None


def ports(folder: Path, *names: str) -> dict[str, int]:
    """A free loopback port for each name; the same ones for the same folder."""
    path = folder / "ports.json"
    known: dict[str, int] = json.loads(path.read_text()) if path.is_file() else {}
    missing = [name for name in names if name not in known]
    fresh = bool(missing)
    with contextlib.ExitStack() as held:
        while missing:
            listener = held.enter_context(socket.socket())
            number = _PORTS.start + secrets.randbelow(len(_PORTS))
            try:
                listener.bind(("127.0.0.1", number))
            except OSError:
                continue
            known[missing.pop()] = number
    if fresh:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known))
    return {name: known[name] for name in names}


def answers(port: int) -> bool:
    """Whether something listens on a loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


def spawn(
    name: str,
    url: str,
    folder: Path,
    command: Sequence[str],
    ready: Callable[[str], bool],
    *,
    env: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    seconds: float = 90.0,
) -> Server:
    """Starts `command` with its output in `folder/server.log` and waits until it is ready.

    Args:
        name: see `Server`.
        url: see `Server`.
        folder: its data; made where missing.
        command: program and arguments.
        ready: is given what it has printed since this start; true when clients may come.
        env: the whole environment; None: this process's.
        extra: see `Server`.
        seconds: how long it may take.

    Raises:
        StartError: it ended or took too long; it does not run then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    with log.open("ab") as output:
        begin = output.tell()
        child = subprocess.Popen(  # noqa: S603 - fixed commands of this package
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=folder, start_new_session=True
        )
    _children[child.pid] = child
    server = Server(name, url, child.pid, psutil.Process(child.pid).create_time(), folder, dict(extra or {}))
    deadline = time.monotonic() + seconds

    def printed() -> str:
        with log.open("rb") as written:
            written.seek(begin)
            return written.read().decode(errors="replace")

    try:
        while not ready(printed()):
            if child.poll() is not None:
                raise StartError(f"{name} exited with {child.returncode}: {printed()[-2000:]}")
            if time.monotonic() > deadline:
                raise StartError(f"{name} was not ready after {seconds:g} s: {printed()[-2000:]}")
            time.sleep(0.05)
    except BaseException:
        server.kill()
        raise
    (folder / _STATE).write_text(json.dumps({**asdict(server), "folder": str(folder)}))
    return server
