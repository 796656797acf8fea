"""How a Kafka cluster is reached: its clients, waiting for it, and what its errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from churnbench.clock import Clock, SystemClock
from churnbench.errors import ChurnBenchError, CorruptLogError, NotFoundError, TransientError, UsageError
from churnbench.log._kafka_options import ClusterOptions, library

__all__ = ["Cluster", "Say"]

Say = Callable[[str], None]
"""Told in one line what is being waited for."""

_TRY_SECONDS = 2.0
_AGAIN_SECONDS = 0.1
_HINT_SECONDS = 3.0
"""A failure that passes sooner, as that of a new topic whose leader is just being made known, is no news."""
_log = logging.getLogger("churnbench.log")


class Cluster:
    """A cluster; made without connecting.

    Args:
        options: its address and what its clients are configured with.
        patience: seconds after which a cluster that does not answer is given up.
        say: told what is waited for; None: the logger `churnbench.log`.
        clock: for the waiting; None: the machine's.
    """

    def __init__(
        self, options: ClusterOptions, patience: float = 60.0, say: Say | None = None, clock: Clock | None = None
    ) -> None:
        self.options = options
        self.patience = patience
        self.say: Say = say if say is not None else _log.warning
        self.clock = clock if clock is not None else SystemClock()
        self._library = library()
        self._admin: Any = None
        self._reachable = False
        self._connecting = asyncio.Lock()
        self._guard = threading.Lock()
        self._refusal: Any = None
        self._trouble: Any = None

    def __repr__(self) -> str:
        """The address alone."""
        return f"Cluster({self.name!r})"

    @property
    def name(self) -> str:
        """See `ClusterOptions.name`."""
        return self.options.name

    def text(self, error: Any) -> str:
        """See `ClusterOptions.text`."""
        return self.options.text(error)

    def client(self, kind: str, tuned: Mapping[str, object], own: Mapping[str, object]) -> Any:
        """A `Producer`, `Consumer` or `AdminClient`; connects in the background.

        Args:
            kind: which.
            tuned: settings that the options may change.
            own: those that they may not.

        Raises:
            UsageError: an option is unknown or has a wrong value.
        """
        module = self._library if kind != "AdminClient" else importlib.import_module("confluent_kafka.admin")
        try:
            return getattr(module, kind)(self.options.config(tuned, {**own, "error_cb": self._note}))
        except (self._library.KafkaException, TypeError, ValueError) as error:
            # Without its cause, whose text may hold the value of an option.
            raise UsageError(f"the Kafka options cannot be used: {self.text(error)}; correct them") from None

    @property
    def admin(self) -> Any:
        """The one admin client; its requests give futures."""
        with self._guard:
            if self._admin is None:
                self._admin = self.client("AdminClient", {}, {})
            return self._admin

    def _note(self, error: Any) -> None:
        """Keeps what a client reports on its own, from any thread."""
        codes = self._library.KafkaError
        if self._refuses(error):
            self._refusal = error
        elif error.code() == codes.GROUP_AUTHORIZATION_FAILED:
            return  # no group is used
        elif self._trouble is None or error.code() != codes._ALL_BROKERS_DOWN:  # that says less than the one before
            self._trouble = error

    def _refuses(self, error: Any) -> bool:
        """Whether waiting does not help; a TLS handshake also fails where the broker just ends or starts."""
        codes, code = self._library.KafkaError, error.code()
        if code == codes._SSL:
            return "certificate" in error.str()
        return bool(code in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED))

    @property
    def troubled(self) -> bool:
        """Whether a client reported trouble since `calm`."""
        return self._trouble is not None or self._refusal is not None

    def calm(self) -> None:
        """Forgets reported trouble: the cluster answers again."""
        self._trouble = self._refusal = None

    def failure(self, error: Any, doing: str, topic: str | None = None) -> ChurnBenchError:
        """What to raise for an error of the library.

        Args:
            error: a `KafkaException`, a `KafkaError`, or anything else that was raised.
            doing: what was tried, as "append to".
            topic: to what.
        """
        inner = error.args[0] if isinstance(error, self._library.KafkaException) and error.args else error
        codes, code = self._library.KafkaError, inner.code() if isinstance(inner, self._library.KafkaError) else None
        what = f"{doing} topic {topic!r}" if topic is not None else doing
        said = self.text(error)
        if self._refusal is not None:
            return self.refused()
        if code in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes.UNKNOWN_TOPIC_ID):
            return NotFoundError(f"there is no topic {topic!r}; `churnbench log topics` lists them")
        if code is not None and self._refuses(inner):
            self._refusal = inner
            return self.refused()
        if code in (codes.TOPIC_AUTHORIZATION_FAILED, codes.CLUSTER_AUTHORIZATION_FAILED):
            return UsageError(f"Kafka at {self.name} does not permit to {what} ({said}); grant it to this user")
        if code == codes.MSG_SIZE_TOO_LARGE:
            return UsageError(
                f"a record for topic {topic!r} is larger than Kafka takes ({said}); "
                "raise the option message.max.bytes and the topic's max.message.bytes"
            )
        if code in (codes._BAD_MSG, codes.INVALID_MSG):
            return CorruptLogError(f"topic {topic!r} at {self.name} holds damaged records: {said}; restore it")
        if code == codes.INVALID_CONFIG:
            return UsageError(
                f"Kafka at {self.name} refused to {what} with the settings that it needs ({said}); "
                "ChurnBench needs Kafka 3.6 or later"
            )
        if code in (codes.TOPIC_EXCEPTION, codes.INVALID_REQUEST, codes.INVALID_TIMESTAMP,
                    codes.INVALID_REPLICATION_FACTOR, codes.POLICY_VIOLATION, codes._INVALID_ARG):  # fmt: skip
            return UsageError(f"Kafka at {self.name} refused to {what}: {said}")
        return TransientError(f"Kafka at {self.name} failed to {what}: {said}")

    def refused(self) -> UsageError:
        """The error of refused credentials or of a connection that cannot be secured."""
        codes = self._library.KafkaError
        what = "the TLS settings do not fit" if self._refusal.code() == codes._SSL else "the login was refused"
        return UsageError(
            f"Kafka at {self.name}: {what} ({self.options.security}: {self.text(self._refusal)}); "
            "correct the Kafka options"
        )

    async def reach(self) -> None:
        """Waits until the cluster answers; returns at once when it did before.

        Raises:
            TransientError: it did not within the patience; the line names the bootstrap servers.
            UsageError: it refuses the credentials, or the options are wrong.
        """
        if self._reachable:
            return
        async with self._connecting:
            if not self._reachable:
                await asyncio.to_thread(self._wait)
                self._reachable = True

    def _wait(self) -> None:
        admin, began, said = self.admin, self.clock.monotonic(), False
        while True:
            left = began + self.patience - self.clock.monotonic()
            try:
                admin.list_topics(timeout=max(0.1, min(_TRY_SECONDS, left if said else left / 2)))
                self.calm()
                return
            except self._library.KafkaException as error:
                admin.poll(0)
                if self._refusal is not None:
                    raise self.refused() from error
                why = self.text(self._trouble if self._trouble is not None else error)
                if self.clock.monotonic() - began >= self.patience:
                    raise TransientError(
                        f"Kafka at {self.name} did not answer within {self.patience:g} s ({why}); "
                        "start it, or correct the bootstrap servers"
                    ) from error
            if not said:
                said = True
                self.say(f"waiting up to {self.patience:g} s for Kafka at {self.name} ({why})")

    async def ask(
        self,
        request: Callable[[], Mapping[Any, Any]],
        doing: str,
        topic: str | None = None,
        settled: frozenset[int] = frozenset(),
        usable: Callable[[Any], bool] = lambda _: True,
    ) -> dict[Any, Any]:
        """The results of an admin request by its keys; asks again while the cluster is not able to answer.

        Args:
            request: makes it; gives futures.
            doing: for the error, see `failure`.
            topic: for the error.
            settled: error codes that mean that it is done already; the result is None then.
            usable: whether a result is one; the library gives some that are not where the time was over.

        Raises:
            ChurnBenchError: see `failure`; `TransientError` only when the patience is over.
        """
        began, said = self.clock.monotonic(), False
        while True:
            results: dict[Any, Any] = {}
            try:
                for key, future in request().items():
                    try:
                        results[key] = await asyncio.wrap_future(future)
                    except self._library.KafkaException as error:
                        if error.args[0].code() not in settled:
                            raise
                        results[key] = None
                    else:
                        if not usable(results[key]):
                            raise self._library.KafkaException(
                                self._library.KafkaError(self._library.KafkaError._TIMED_OUT)
                            )
                return results
            except self._library.KafkaException as error:
                self.admin.poll(0)
                failed = self.failure(error, doing, topic)
                if not isinstance(failed, TransientError) or self.clock.monotonic() - began >= self.patience:
                    raise failed from error
            if not said and self.clock.monotonic() - began >= _HINT_SECONDS:
                said = True
                self.say(f"waiting up to {self.patience:g} s: {failed}")
            await asyncio.sleep(_AGAIN_SECONDS)
            await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        """Has the admin client learn anew who leads, which after an election it does not do by itself."""
        with contextlib.suppress(self._library.KafkaException):
            self.admin.list_topics(timeout=_TRY_SECONDS)
