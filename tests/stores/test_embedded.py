"""The embedded PostgreSQL: one server a home, whoever starts it, whatever is killed."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from churnbench.errors import UsageError
from churnbench.stores._processes import identity
from churnbench.stores.postgres import (
    RunDatabase,
    embedded_running,
    embedded_server,
    server_facts,
    stop_embedded,
)

_USER = """
import asyncio, sys, time
from pathlib import Path
from churnbench.stores.postgres import embedded_server
server = asyncio.run(embedded_server(Path(sys.argv[1])))
print(server.conninfo("postgres"), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cb"))
    yield folder / "home"
    asyncio.run(stop_embedded(folder / "home"))
    shutil.rmtree(folder, ignore_errors=True)


def _user(home: Path) -> subprocess.Popen[str]:
    """Another process that uses the home's server until it is told to end."""
    return subprocess.Popen(
        [sys.executable, "-c", _USER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _started(user: subprocess.Popen[str]) -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


def _end(user: subprocess.Popen[str]) -> None:
    user.communicate("\n", timeout=60)
    assert user.returncode == 0


def _kill(user: subprocess.Popen[str]) -> None:
    user.kill()
    user.communicate(timeout=60)


def _postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def _ask(conninfo: str) -> int:
    with psycopg.connect(conninfo) as connection:
        return connection.execute("SELECT 1").fetchone()[0]


def _start(home: Path) -> str:
    return asyncio.run(embedded_server(home)).conninfo("postgres")


def test_a_server_starts_on_demand_and_stops_on_demand(home: Path) -> None:
    assert not embedded_running(home)
    assert not asyncio.run(stop_embedded(home))
    conninfo = _start(home)
    assert embedded_running(home)
    assert _ask(conninfo) == 1
    assert asyncio.run(stop_embedded(home))
    assert not embedded_running(home)
    with pytest.raises(psycopg.OperationalError):
        _ask(conninfo)


def test_it_has_pgvector_writes_to_disk_and_listens_on_no_network(home: Path) -> None:
    async def look() -> tuple[object, ...]:
        server = await embedded_server(home)
        assert (await server_facts(server)).vector is not None
        with psycopg.connect(server.conninfo("postgres")) as connection:
            return connection.execute(
                "SELECT current_setting('fsync'), current_setting('listen_addresses'), current_setting('timezone')"
            ).fetchone()

    assert asyncio.run(look()) == ("on", "", "UTC")


@pytest.mark.parametrize("name", ["a home with blanks", "höme", 'it\'s, a "home"', "@home", "h" * 150])
def test_any_path_is_a_home(home: Path, name: str) -> None:
    there = home / name
    try:
        assert _ask(_start(there)) == 1
    finally:
        asyncio.run(stop_embedded(there))


def test_processes_share_one_server_which_ends_with_the_last(home: Path) -> None:
    users = [_user(home) for _ in range(3)]
    addresses = {_started(user) for user in users}
    assert len(addresses) == 1
    first = _postmaster(home)
    _end(users[0])
    _kill(users[1])
    assert _ask(addresses.pop()) == 1
    assert _postmaster(home) == first
    _end(users[2])
    assert not embedded_running(home)


def test_a_killed_owner_leaves_the_server_to_the_next(home: Path) -> None:
    owner = _user(home)
    conninfo = _started(owner)
    first = _postmaster(home)
    _kill(owner)
    assert _ask(conninfo) == 1
    heir = _user(home)
    assert _started(heir) == conninfo
    assert _postmaster(home) == first
    _end(heir)
    assert not embedded_running(home)


def test_a_forked_child_that_ends_does_not_stop_its_parents_server(home: Path) -> None:
    conninfo = _start(home)
    child = os.fork()
    if child == 0:
        try:
            import atexit

            atexit._run_exitfuncs()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert _ask(conninfo) == 1


def test_a_killed_server_is_started_again_by_the_next_connection_and_lost_nothing(home: Path) -> None:
    async def scenario() -> None:
        server = await embedded_server(home)
        async with await RunDatabase.open(server, "r") as database:
            async with database.pool.connection() as connection:
                await connection.execute("CREATE TABLE warehouse.kept AS SELECT 7 AS n")
            os.kill(_postmaster(home), signal.SIGKILL)
            for attempt in range(100):
                try:
                    async with database.pool.connection() as connection:
                        cursor = await connection.execute("SELECT n FROM warehouse.kept")
                        assert await cursor.fetchone() == (7,)
                    break
                except psycopg.OperationalError:
                    assert attempt < 99
                    await asyncio.sleep(0.1)

    asyncio.run(scenario())


def test_a_killed_server_whose_process_id_was_taken_by_another_is_recovered(home: Path) -> None:
    _start(home)
    pid = home / "postgres" / "postmaster.pid"
    old = _postmaster(home)
    os.kill(old, signal.SIGKILL)
    while identity(old) is not None:
        time.sleep(0.01)
    lines = pid.read_text().splitlines()
    pid.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert not embedded_running(home)
    assert _ask(_start(home)) == 1
    assert _postmaster(home) != os.getpid()


def test_a_starter_killed_at_any_moment_does_not_block_the_next(home: Path) -> None:
    draw = random.Random(7)
    for _ in range(6):
        starter = _user(home)
        time.sleep(draw.uniform(0.1, 1.2))
        _kill(starter)
    assert _ask(_start(home)) == 1


def test_a_cluster_that_was_left_half_made_is_made_anew(home: Path) -> None:
    (home / "postgres").mkdir(parents=True)
    (home / "postgres" / "PG_VERSION").write_text("18\n")
    assert _ask(_start(home)) == 1


def test_a_cluster_of_another_version_is_refused_with_the_way_out(home: Path) -> None:
    _start(home)
    asyncio.run(stop_embedded(home))
    (home / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(UsageError, match=r"PostgreSQL 16.*works with 18.*CHURNBENCH_HOME"):
        _start(home)


def test_a_home_that_cannot_be_written_is_one_line(home: Path) -> None:
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file")
    with pytest.raises(UsageError, match="CHURNBENCH_HOME"):
        _start(home)
    home.unlink()
