"""`churnbench log`: what stands on the message log."""

from __future__ import annotations

import json as json_
import sys
from typing import Annotated, Any

import typer

from churnbench.clock import parse_time
from churnbench.errors import NotFoundError
from churnbench.events import time_text
from churnbench.log import Record
from churnbench_cli._home import opened_home
from churnbench_cli._options import Json
from churnbench_cli._output import print_json, print_table

__all__ = ["show", "topics"]


async def topics(json: Json = False) -> int:
    """List the topics with their partitions and records."""
    async with opened_home() as home:
        rows = []
        for name, partitions in (await home.log.topics()).items():
            ends, begins = await home.log.end_offsets(name), await home.log.beginning_offsets(name)
            rows.append((name, partitions, sum(ends.values()) - sum(begins.values())))
        if json:
            print_json([{"topic": t, "partitions": p, "records": n} for t, p, n in rows])
        else:
            print_table("", ["topic", "partitions ", "records "], rows)
    return 0


def _plain(value: bytes) -> Any:
    try:
        return json_.loads(value)
    except ValueError:
        return value.decode(errors="backslashreplace")


def _line(record: Record) -> str:
    return json_.dumps(
        {
            "partition": record.partition,
            "offset": record.offset,
            "time": time_text(record.timestamp_ms),
            "key": record.key.decode(errors="backslashreplace") if record.key is not None else None,
            "headers": {name: value.decode(errors="backslashreplace") for name, value in record.headers},
            "value": _plain(record.value),
        }
    )


async def show(
    topic: Annotated[str, typer.Argument(help="A topic, or the beginning of its name.")],
    from_: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only records at or after it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most records to print.")] = 20,
) -> int:
    """Print a topic's records as JSON lines, partition by partition."""
    async with opened_home() as home:
        known = await home.log.topics()
        if topic not in known:
            matches = [name for name in known if name.startswith(topic)]
            if len(matches) != 1:
                what = f"{topic!r} fits {', '.join(matches[:5])}" if matches else f"no topic {topic!r}"
                raise NotFoundError(f"{what}; `churnbench log topics` lists them")
            topic = matches[0]
        start: dict[int, int] = await home.log.beginning_offsets(topic)
        if from_ is not None:
            ends = await home.log.end_offsets(topic)
            found = await home.log.offsets_after(topic, parse_time(from_) - 1)
            start = {p: ends[p] if offset is None else offset for p, offset in found.items()}
        left = limit
        async for batch in home.log.read(topic, start, batch=min(limit, 1000)):
            for record in batch[:left]:
                sys.stdout.write(_line(record) + "\n")
            left -= len(batch)
            if left <= 0:
                break
        sys.stdout.flush()
    return 0
