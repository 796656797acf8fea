"""A run: its identity, its topics, and the folder that is a complete export of them."""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from churnbench.errors import IncompleteError, NotFoundError
from churnbench.log import Log, NewRecord, Topic
from churnbench.records import RUN_TOPICS
from churnbench.worlds import WorldManifest

__all__ = ["MANIFEST", "Manifest", "Run", "RunFolder", "new_run_id"]

MANIFEST = "manifest"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is, written before it begins.

    The config hash covers `config` alone: everything that can change an answer.

    Attributes:
        run_id: new each time.
        created: wall-clock time it was made, ISO.
        world: the world that it reads.
        config: settings that can change an answer: world identity, T', T, registry, refresh policy, rule, way,
            arm, reader, model settings, prompts, task set, scorer version, stores, embedder.
        provenance: code version and dirty flag, package versions, machine: what cannot.
        tasks: number of tasks.
    """

    run_id: str
    created: str
    world: WorldManifest
    config: dict[str, Any]
    provenance: dict[str, Any]
    tasks: int

    @property
    def config_hash(self) -> str:
        """16 hex digits of the SHA-256 of `config` as sorted JSON."""
        text = msgspec.json.encode(self.config, order="deterministic")
        return hashlib.sha256(text).hexdigest()[:16]


def new_run_id(now_ms: int, label: str) -> str:
    """A run id that sorts by time and names what it is, usable as topic, schema and folder name."""
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{label}-{secrets.token_hex(3)}"


class Run:
    """A run's topics on the log.

    Args:
        log: where they are.
        run_id: whose they are.
    """

    def __init__(self, log: Log, run_id: str) -> None:
        self.log = log
        self.run_id = run_id

    def topic_name(self, name: str) -> str:
        """The full name of one of the run's topics."""
        return f"{self.run_id}.{name}"

    def topic(self, name: str) -> Topic[Any]:
        """One of the topics of `RUN_TOPICS`."""
        return Topic(self.log, self.topic_name(name), RUN_TOPICS[name])

    async def create_topics(self) -> None:
        """Makes the run's topics where they are missing."""
        for name in RUN_TOPICS:
            await self.topic(name).create()
        await self.log.create_topic(self.topic_name(MANIFEST))

    async def publish_manifest(self, manifest: Manifest, now_ms: int) -> None:
        """Writes the manifest, which says that everything before it is there; a run has one."""
        if await self.manifest_or_none() is None:
            await self.log.append(self.topic_name(MANIFEST), [NewRecord(msgspec.json.encode(manifest), now_ms)])

    async def manifest_or_none(self) -> Manifest | None:
        """The manifest, or None where the run has none yet."""
        async for batch in self.log.read(self.topic_name(MANIFEST), {0: 0}):
            return msgspec.json.decode(batch[0].value, type=Manifest)
        return None

    async def manifest(self) -> Manifest:
        """The manifest.

        Raises:
            NotFoundError: there is no such run on this log.
        """
        if self.topic_name(MANIFEST) in await self.log.topics():
            manifest = await self.manifest_or_none()
            if manifest is not None:
                return manifest
        raise NotFoundError(f"no run {self.run_id!r} on the log; `churnbench runs list` shows them")

    async def delete(self) -> None:
        """Removes all topics of the run, the manifest first."""
        await self.log.delete_topic(self.topic_name(MANIFEST))
        for name in RUN_TOPICS:
            await self.log.delete_topic(self.topic_name(name))


class RunFolder:
    """`runs/<run_id>/`: `manifest.json`, and one file of JSON lines for each topic.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    async def export(self, run: Run, manifest: Manifest) -> None:
        """Writes the run's topics as they are; each file appears whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        for name in RUN_TOPICS:
            lines = bytearray()
            async for batch in run.log.read(run.topic_name(name), {0: 0}):
                for record in batch:
                    lines += record.value + b"\n"
            self.write(f"{name}.jsonl", bytes(lines))
        self.write_manifest(manifest)

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes `manifest.json`, with the folder where it is missing."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.write("manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")

    def write(self, name: str, content: bytes) -> Path:
        """Replaces a file of the folder in one step."""
        target = self.path / name
        partial = self.path / f".{name}.partial"
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        return target

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError as error:
            if not self.path.is_dir():
                raise NotFoundError(f"no run folder {self.path}; `churnbench runs list` shows the runs") from error
            raise IncompleteError(
                f"the run folder {self.path} has no {name}; `churnbench runs export {self.path.name}` writes it anew"
            ) from error

    def manifest(self) -> Manifest:
        """The manifest in the folder.

        Raises:
            NotFoundError: there is no such folder.
            IncompleteError: the file is missing or damaged.
        """
        try:
            return msgspec.json.decode(self._bytes("manifest.json"), type=Manifest)
        except msgspec.DecodeError as error:
            raise IncompleteError(f"{self.path / 'manifest.json'} is no manifest: {error}") from error

    def records(self, name: str) -> list[Any]:
        """The records of one topic.

        Raises:
            IncompleteError: the file is missing or damaged.
        """
        decoder = msgspec.json.Decoder(RUN_TOPICS[name])
        found = []
        for number, line in enumerate(self._bytes(f"{name}.jsonl").splitlines(), 1):
            try:
                found.append(decoder.decode(line))
            except msgspec.DecodeError as error:
                raise IncompleteError(f"{self.path / name}.jsonl line {number} is damaged: {error}") from error
        return found
