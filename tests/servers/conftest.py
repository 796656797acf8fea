"""Real servers, each started once for all tests that need it; only where CHURNBENCH_TEST_SERVERS=1 asks for it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.servers import NotInstallableError, Server, attach, kafka, mongo, weaviate

_ASKED = os.environ.get("CHURNBENCH_TEST_SERVERS") == "1"
_SERVERS = {"kafka", "mongo", "weaviate"}

if _ASKED and os.environ.get("CI"):
    for _client in ("confluent_kafka", "pymongo", "weaviate"):
        importlib.import_module(_client)  # where none may be skipped, a missing one must be loud


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a server, unless servers were asked for."""
    if _ASKED:
        return
    for item in items:
        if _SERVERS & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason="starts servers; set CHURNBENCH_TEST_SERVERS=1 to run it"))


def _running(start: Callable[[Path], Server], folder: Path) -> Iterator[Server]:
    """Where it cannot be had the test skips with the reason, and fails in CI."""
    try:
        server = start(folder)
    except NotInstallableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield server
    last = attach(folder)  # a test may have killed and started it again
    if last is not None:
        last.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Kafka broker that no test may kill."""
    yield from _running(kafka.start, tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def mortal_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Kafka broker that tests kill and start again over its `folder`; its address stays."""
    yield from _running(kafka.start, tmp_path_factory.mktemp("mortal-kafka"))


@pytest.fixture(scope="session")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of MongoDB's protocol."""
    yield from _running(mongo.start, tmp_path_factory.mktemp("mongo"))


@pytest.fixture(scope="session")
def weaviate_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Weaviate server."""
    yield from _running(weaviate.start, tmp_path_factory.mktemp("weaviate"))
