"""Real servers, started once for all tests that need them; only where CHURNBENCH_TEST_SERVERS=1 asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.servers import NotInstallableError, Server, kafka

_ASKED = os.environ.get("CHURNBENCH_TEST_SERVERS") == "1"
_SERVERS = {"kafka", "mongo", "weaviate"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a server, unless servers were asked for."""
    if _ASKED:
        return
    for item in items:
        if _SERVERS & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason="starts servers; set CHURNBENCH_TEST_SERVERS=1 to run it"))


def started(start: Callable[[Path], Server], folder: Path) -> Server:
    """A running server; where it cannot be had the test skips with the reason, and fails in CI."""
    try:
        return start(folder)
    except NotInstallableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Kafka broker for the whole session; tests that kill one start their own."""
    server = started(kafka.start, tmp_path_factory.mktemp("kafka"))
    yield server
    server.stop()
