"""The Kafka engine keeps the log's contract on a real broker, and what only a broker can do to it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from churnbench.log import KafkaLog, Log
from churnbench.testing._log_contract import LogContract
from tools.servers import Server

pytestmark = pytest.mark.kafka
_names = itertools.count()


@asynccontextmanager
async def opened(servers: str, **settings: object) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(servers, **settings)
    try:
        yield log
    finally:
        await log.close()


def fresh(name: str = "topic") -> str:
    return f"{name}-{next(_names)}"


class TestKafkaLog(LogContract):
    @pytest.fixture(autouse=True)
    def _broker(self, broker: Server) -> None:
        self._servers = broker.url

    def opened(self) -> AbstractAsyncContextManager[Log]:
        return opened(self._servers)

    def topic(self) -> str:
        return fresh("contract")
