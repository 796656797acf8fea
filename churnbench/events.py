"""Events: what every entry of a ledger is, and how it goes over the wire.

An event is immutable. On the wire it is one JSON object whose time is an integer of milliseconds; in
Python its payload is a `msgspec.Struct` of the event's kind. A `Codec` knows the kinds of one domain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from churnbench.errors import DecodeError, UsageError

__all__ = ["Codec", "Event", "EventKind", "Upcaster", "canonical_line", "from_millis", "time_text", "to_millis"]

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Lifts a payload (as plain JSON values) from one version to the next; pure."""


@lru_cache(maxsize=4096)
def from_millis(millis: int) -> datetime:
    """The UTC time `millis` milliseconds after 1970-01-01, exact."""
    seconds, rest = divmod(millis, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def to_millis(at: datetime) -> int:
    """Milliseconds since 1970-01-01 UTC, whole; finer parts are cut off.

    Raises:
        UsageError: `at` has no time zone.
    """
    if at.tzinfo is None:
        raise UsageError(f"the time {at.isoformat()} has no time zone; give it one, for example +00:00")
    delta = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of the world.

    Attributes:
        seq: place in the whole ledger, counted from 0; times never decrease along it.
        at_ms: when it happened in the world, milliseconds since 1970-01-01 UTC.
        kind: names the payload's schema.
        entity_type: what kind of thing changed.
        entity_id: which one; decides the partition.
        payload: a Struct of the kind.
        version: version of the payload's schema, from 1; decoding lifts it to the newest.
    """

    seq: int
    at_ms: int = msgspec.field(name="at")
    kind: str
    entity_type: str
    entity_id: str
    payload: Any
    version: int = 1

    @property
    def at(self) -> datetime:
        """When it happened, UTC."""
        return from_millis(self.at_ms)


class EventKind(msgspec.Struct, frozen=True):
    """How one kind is written.

    Attributes:
        name: the kind.
        entity_type: the type of entity that it changes.
        payload: the Struct of the newest version.
        version: the newest version, from 1.
        upcasters: old version -> function that lifts a payload of it to the next version. Empty where
            there is only one version.
    """

    name: str
    entity_type: str
    payload: type[msgspec.Struct]
    version: int = 1
    upcasters: Mapping[int, Upcaster] = {}


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    seq: int
    at: int
    kind: str
    entity_type: str
    entity_id: str
    payload: msgspec.Raw
    version: int = 1


class Codec:
    """Encodes and decodes the events of one domain."""

    def __init__(self, kinds: Iterable[EventKind]) -> None:
        self.kinds: dict[str, EventKind] = {kind.name: kind for kind in kinds}
        self._encoder = msgspec.json.Encoder()
        self._envelope = msgspec.json.Decoder(_Envelope)
        self._payloads = {kind.name: msgspec.json.Decoder(kind.payload) for kind in self.kinds.values()}

    def encode(self, event: Event) -> bytes:
        """The event as JSON, time in milliseconds."""
        return self._encoder.encode(event)

    def decode(self, value: bytes, where: str = "a record") -> Event:
        """The event in `value`, its payload lifted to the newest version.

        Args:
            value: what `encode` wrote, now or in an older version.
            where: topic, partition and offset, for the error.

        Raises:
            DecodeError: no JSON, an unknown kind, version or entity type, or a payload that does not fit.
        """
        try:
            raw = self._envelope.decode(value)
        except msgspec.DecodeError as error:
            raise DecodeError(f"{where} is not an event: {error}") from error
        kind = self.kinds.get(raw.kind)
        if kind is None:
            raise DecodeError(f"{where} has the unknown kind {raw.kind!r}; known: {', '.join(sorted(self.kinds))}")
        if raw.entity_type != kind.entity_type:
            raise DecodeError(f"{where}: {raw.kind} is about a {kind.entity_type}, not a {raw.entity_type!r}")
        try:
            if raw.version == kind.version:
                payload = self._payloads[raw.kind].decode(raw.payload)
            else:
                payload = msgspec.convert(self._lift(kind, raw, where), kind.payload)
        except msgspec.DecodeError as error:
            raise DecodeError(f"{where}: the payload of {raw.kind} does not fit: {error}") from error
        return Event(raw.seq, raw.at, raw.kind, raw.entity_type, raw.entity_id, payload, kind.version)

    def _lift(self, kind: EventKind, raw: _Envelope, where: str) -> dict[str, Any]:
        payload: dict[str, Any] = msgspec.json.decode(raw.payload)
        for version in range(raw.version, kind.version):
            if version not in kind.upcasters:
                raise DecodeError(f"{where}: {raw.kind} version {raw.version} cannot be lifted to {kind.version}")
            payload = kind.upcasters[version](payload)
        if raw.version > kind.version or raw.version < 1:
            raise DecodeError(f"{where}: {raw.kind} has version {raw.version}; known: 1 to {kind.version}")
        return payload


_quoted = lru_cache(maxsize=65536)(json.dumps)


@lru_cache(maxsize=4096)
def time_text(millis: int) -> str:
    """The ISO date at midnight UTC, the ISO time with milliseconds otherwise."""
    at = from_millis(millis)
    if millis % 86_400_000 == 0:
        return at.date().isoformat()
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def canonical_line(event: Event) -> str:
    """One line, without its newline, that names the event to the byte.

    Keys in the order seq, at, kind, entity_type, entity_id, payload, written as `json.dumps` does by
    default; `at` is an ISO date at midnight and an ISO time with milliseconds otherwise; a version above 1
    stands at the end.
    """
    payload = json.dumps(msgspec.to_builtins(event.payload))
    version = f', "version": {event.version}' if event.version != 1 else ""
    return (
        f'{{"seq": {event.seq}, "at": "{time_text(event.at_ms)}", "kind": {_quoted(event.kind)}, '
        f'"entity_type": {_quoted(event.entity_type)}, "entity_id": {_quoted(event.entity_id)}, '
        f'"payload": {payload}{version}}}'
    )
