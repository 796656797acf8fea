"""A Kafka cluster's address and librdkafka's options for it, whose secrets appear in no text."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from churnbench.errors import UsageError

__all__ = ["ClusterOptions", "library"]

_RESERVED = {
    "acks", "auto.offset.reset", "bootstrap.servers", "check.crcs", "delivery.report.only.error", "enable.auto.commit",
    "enable.auto.offset.store", "enable.gapless.guarantee", "enable.idempotence", "enable.partition.eof", "error_cb",
    "group.id", "isolation.level", "logger", "max.in.flight", "max.in.flight.requests.per.connection",
    "message.timeout.ms",
    "metadata.broker.list", "on_delivery", "request.required.acks", "delivery.timeout.ms",
}  # fmt: skip
_SECRET = re.compile(r"password|secret|token|jaas|pem|oauth|assertion", re.IGNORECASE)
_DEFAULTS: dict[str, Any] = {
    "client.id": "churnbench",
    "log_level": 0,  # every error reaches the caller; librdkafka's own lines on stderr would only repeat them
    "reconnect.backoff.max.ms": 1000,
    "socket.keepalive.enable": True,
}
_LARGEST = 16 << 20
_library_log = logging.getLogger("churnbench.log.librdkafka")
_library_log.addHandler(logging.NullHandler())


def library() -> Any:
    """The client library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError as error:
        raise UsageError(
            f"the Kafka log needs confluent-kafka, which cannot be imported ({error}); "
            "install it with: pip install 'churnbench[servers]'"
        ) from error


class ClusterOptions:
    """What every client of a cluster is configured with.

    Args:
        servers: bootstrap servers, `host:port` with commas between.
        options: librdkafka's options for security, limits and tuning. Those that the log's promises rest on
            cannot be set. Values that are `SecretStr`, or whose names say that they are secret, appear in no text.

    Attributes:
        max_message_bytes: the largest record; 16 MiB unless `message.max.bytes` says otherwise.

    Raises:
        UsageError: no servers, an option that cannot be set, or the client library is not installed.
    """

    def __init__(self, servers: str, options: Mapping[str, object] | None = None) -> None:
        if not servers.strip(" ,"):
            raise UsageError("no Kafka bootstrap servers given; name at least one as host:port")
        given = dict(options or {})
        reserved = sorted(_RESERVED & given.keys())
        if reserved:
            raise UsageError(f"the Kafka option {reserved[0]!r} is set by the log itself; remove it")
        self._servers = servers
        self._options = {k: v.get_secret_value() if isinstance(v, SecretStr) else v for k, v in given.items()}
        secret = {n for n, value in given.items() if isinstance(value, SecretStr) or _SECRET.search(n)}
        self._secrets = sorted({str(self._options[name]) for name in secret} - {""}, key=len, reverse=True)
        limit = str(self._options.get("message.max.bytes", _LARGEST))
        if not limit.isdigit():
            raise UsageError(f"the Kafka option message.max.bytes is {limit!r}; give a number of bytes")
        self.max_message_bytes = int(limit)
        self._library = library()

    def __repr__(self) -> str:
        """The address alone; options may hold secrets."""
        return f"ClusterOptions({self.name!r})"

    @property
    def name(self) -> str:
        """The bootstrap servers, without anything before an @."""
        return re.sub(r"[^,/@\s]+@", "***@", self._servers)

    @property
    def security(self) -> str:
        """How clients log in, without the secrets."""
        protocol = self._options.get("security.protocol", "plaintext")
        mechanism = self._options.get("sasl.mechanism", self._options.get("sasl.mechanisms", "none"))
        return f"security.protocol {protocol}, sasl.mechanism {mechanism}"

    def config(self, tuned: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
        """The configuration of one client.

        Args:
            tuned: what the options may change.
            own: what they may not.
        """
        return {
            **_DEFAULTS,
            "message.max.bytes": self.max_message_bytes,
            **tuned,
            **self._options,
            "bootstrap.servers": self._servers,
            "logger": _library_log,
            **own,
        }

    def text(self, error: Any) -> str:
        """An error as one line, with no secret in it."""
        inner = error.args[0] if isinstance(error, self._library.KafkaException) and error.args else error
        said = inner.str() if isinstance(inner, self._library.KafkaError) else str(inner)
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return " ".join(said.split())
