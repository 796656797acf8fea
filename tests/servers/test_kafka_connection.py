"""Kafka that is down, refuses the login, or does not answer; and what is never printed."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
import traceback

import pytest
from pydantic import SecretStr

from churnbench.errors import TransientError, UsageError
from churnbench.log import KafkaLog, NewRecord
from churnbench.testing._log_contract import read_all
from tests.servers.test_log_kafka import fresh, opened, records
from tools.servers import Server, kafka

pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.kafka


def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


async def test_a_cluster_that_is_down_is_waited_for_with_a_message_and_given_up() -> None:
    address, said = nobody(), []
    async with opened(address, patience=2, say=said.append) as log:
        began = time.monotonic()
        with pytest.raises(
            TransientError, match=f"Kafka at {address} did not answer within 2 s.*refused.*start it"
        ) as got:
            await log.create_topic("t")
        assert 1.5 < time.monotonic() - began < 6
        assert "\n" not in str(got.value)
    assert len(said) == 1
    assert said[0].startswith(f"waiting up to 2 s for Kafka at {address}")


async def test_by_default_the_message_goes_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    address = nobody()
    with caplog.at_level(logging.WARNING, "churnbench.log"):
        async with opened(address, patience=1) as log:
            with pytest.raises(TransientError):
                await log.topics()
    assert [record.message.split(" (")[0] for record in caplog.records] == [f"waiting up to 1 s for Kafka at {address}"]


async def test_a_cluster_that_comes_up_late_is_used(mortal_broker: Server) -> None:
    topic = fresh("late")
    await asyncio.to_thread(mortal_broker.kill)
    starter = threading.Timer(2, kafka.start, [mortal_broker.folder])
    starter.start()
    said: list[str] = []
    async with opened(mortal_broker.url, patience=120, say=said.append) as log:
        await log.create_topic(topic)
        await log.append(topic, records(3))
        assert len(await read_all(log, topic, {0: 0})) == 3
    await asyncio.to_thread(starter.join)
    assert said[0].startswith("waiting up to 120 s for Kafka")


async def test_a_cluster_that_hangs_is_given_up_and_used_again_when_it_answers(mortal_broker: Server) -> None:
    server = await asyncio.to_thread(kafka.start, mortal_broker.folder)
    topic = fresh("hang")
    async with opened(server.url, patience=4, say=lambda _: None) as log:
        await log.create_topic(topic)
        await log.append(topic, records(2))
        assert len(await read_all(log, topic, {0: 0})) == 2
        server.pause()
        try:
            with pytest.raises(TransientError, match=f"Kafka at {server.url} took none of 2 records.*within 4 s"):
                await log.append(topic, records(2, 2))
            with pytest.raises(TransientError, match=f"Kafka at {server.url}"):
                await log.end_offsets(topic)
        finally:
            server.resume()
        deadline = time.monotonic() + 60
        while True:
            try:
                await log.append(topic, records(1, 4))
                break
            except TransientError:
                assert time.monotonic() < deadline
        values = [r.value for r in await read_all(log, topic, {0: 0})]
        assert values[:2] == [b"v0", b"v1"]
        assert b"v4" in values


async def test_a_follower_gives_up_on_a_cluster_that_went_away(mortal_broker: Server) -> None:
    server = await asyncio.to_thread(kafka.start, mortal_broker.folder)
    topic = fresh("gone")
    async with opened(server.url, patience=3, say=lambda _: None) as log:
        await log.create_topic(topic)
        await log.append(topic, records(1))
        reading = log.read(topic, {0: 0}, follow=True)
        assert [r.value for r in await anext(reading)] == [b"v0"]
        await asyncio.to_thread(server.kill)
        with pytest.raises(TransientError, match=f"Kafka at {server.url} did not answer a read of topic '{topic}'"):
            await asyncio.wait_for(anext(reading), 30)
        with pytest.raises(TransientError, match=server.url):
            await log.topics()


def secured(broker: Server, **changes: object) -> dict[str, object]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": broker.extra["ca"],
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": broker.extra["user"],
        "sasl.password": SecretStr(broker.extra["password"]),
    } | {name.replace("_", "."): value for name, value in changes.items()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_sasl_and_tls_settings_are_passed_through(broker: Server, mechanism: str) -> None:
    topic = fresh("secure")
    async with opened(broker.extra["secure_url"], options=secured(broker, sasl_mechanism=mechanism)) as log:
        await log.create_topic(topic)
        await log.append(topic, records(3))
        assert [r.value for r in await read_all(log, topic, {0: 0})] == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_refused_at_once_and_never_printed(
    broker: Server, mechanism: str, wrapped: bool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "hunter2-is-no-password"
    options = secured(broker, sasl_mechanism=mechanism, sasl_password=SecretStr(secret) if wrapped else secret)
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        log = KafkaLog(broker.extra["secure_url"], options, patience=30, say=said.append)
        began = time.monotonic()
        with pytest.raises(UsageError, match=f"login was refused.*{mechanism}.*correct the Kafka options") as got:
            await log.connect()
        assert time.monotonic() - began < 15
        await log.close()
    printed = capfd.readouterr()
    everything = [repr(log), repr(vars(log)), *traceback.format_exception(got.value), *said, caplog.text, *printed]
    assert not [text for text in everything if secret in text]


async def test_a_certificate_that_is_not_trusted_is_refused(broker: Server) -> None:
    options = {name: value for name, value in secured(broker).items() if name != "ssl.ca.location"}
    async with opened(broker.extra["secure_url"], options=options, patience=20, say=lambda _: None) as log:
        with pytest.raises(UsageError, match="TLS settings do not fit"):
            await log.connect()


def test_what_cannot_be_set_is_refused_without_the_secret() -> None:
    secret = "hunter2-is-no-password"
    with pytest.raises(UsageError, match="no Kafka bootstrap servers"):
        KafkaLog(" ")
    with pytest.raises(UsageError, match=r"'acks' is set by the log itself; remove it"):
        KafkaLog("localhost:1", {"acks": "1"})
    with pytest.raises(UsageError, match=r"message.max.bytes is 'many'"):
        KafkaLog("localhost:1", {"message.max.bytes": "many"})
    assert "user" not in repr(KafkaLog(f"user:{secret}@localhost:1"))


@pytest.mark.parametrize("options", [{"no.such.option": "1"}, {"security.protocol": "hunter2"}, {"linger.ms": "soon"}])
async def test_an_option_that_kafka_does_not_know_is_one_line(options: dict[str, object]) -> None:
    options |= {"sasl.password": "hunter2"}
    async with opened("127.0.0.1:1", options=options) as log:
        with pytest.raises(UsageError, match="the Kafka options cannot be used") as got:
            await log.append("t", [NewRecord(b"", 1)])
        assert "\n" not in str(got.value)
        assert "hunter2" not in "".join(traceback.format_exception(got.value))
