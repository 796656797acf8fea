"""A fixed toy ledger that changes, removes and brings back what was before."""

from __future__ import annotations

from churnbench.events import Event
from tests.toy import START_MS, Moved, Registered, Scanned, event

HOUR_MS = 3_600_000


def eventful(parcels: int = 5, rounds: int = 4) -> list[Event]:
    payloads: list[tuple[str, object]] = [(f"p{n}", Registered("north", 0.1 * n)) for n in range(parcels)]
    for turn in range(rounds):
        for number in range(parcels):
            depot = ("south", "lost", "east", "north")[(turn + number) % 4]
            payloads.append((f"p{number}", Moved(depot)))
            payloads.append((f"p{number}", Scanned(number * 7 + turn)))
    return [event(seq, START_MS + seq * HOUR_MS, parcel, payload) for seq, (parcel, payload) in enumerate(payloads)]
