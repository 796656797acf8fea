"""Gold of the toy domain by a plain fold over its events, independent of the scorer and of the domain's assertions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from churnbench.cuts import Cut, partition_of
from churnbench.events import Event
from tests.toy import DEPOTS, START_MS, Moved, Registered, Scanned, event

DAY_MS = 86_400_000
CLASSES = ("registration", "location", "weight", "scans", "activity", "moves")


class Brute:
    """A ledger whose events carry their place in their partition."""

    def __init__(self, events: Sequence[Event], partitions: int) -> None:
        following = [0] * partitions
        self.placed: list[tuple[int, int, Event]] = []
        for e in events:
            partition = partition_of(e.entity_id, partitions)
            self.placed.append((partition, following[partition], e))
            following[partition] += 1

    def up_to(self, cut: Cut) -> list[Event]:
        return [e for partition, pseq, e in self.placed if pseq <= cut.positions.get(partition, -1)]

    def gold(self, measure: str, params: Mapping[str, Any], at_ms: int, cuts: Mapping[str, Cut]) -> Any:
        """Gold with each class as of its cut."""
        exists = {e.entity_id for e in self.up_to(cuts["registration"]) if isinstance(e.payload, Registered)}
        depots: dict[str, str] = {}
        for e in self.up_to(cuts["location"]):
            if isinstance(e.payload, Moved) and e.payload.depot == "lost":
                depots.pop(e.entity_id, None)
            elif isinstance(e.payload, (Registered, Moved)):
                depots[e.entity_id] = e.payload.depot
        known = {parcel: depot for parcel, depot in depots.items() if parcel in exists}
        since = at_ms - params.get("days", 30) * DAY_MS

        def scans(cls: str) -> list[Event]:
            return [e for e in self.up_to(cuts[cls]) if isinstance(e.payload, Scanned) and e.at_ms >= since]

        match measure:
            case "parcels_in_depot":
                return list(known.values()).count(params["depot"])
            case "fullest_depot":
                counts = {depot: list(known.values()).count(depot) for depot in known.values()}
                most = max(counts.values(), default=0)
                return min((depot for depot, count in counts.items() if count == most), default="")
            case "weight_of":
                weights = [
                    e.payload.weight
                    for e in self.up_to(cuts["weight"])
                    if isinstance(e.payload, Registered) and e.entity_id == params["parcel"]
                ]
                return weights[-1] if weights else 0.0
            case "scans_recent":
                return len(scans("scans"))
            case "scanned_in_depot":
                scanned = {e.entity_id for e in scans("scans")}
                return sum(depot == params["depot"] and parcel in scanned for parcel, depot in depots.items())
            case "activity_of":
                return sum(e.payload.seconds for e in scans("activity") if e.entity_id == params["parcel"])
            case "moves_window":
                moved = [e for e in self.up_to(cuts["moves"]) if isinstance(e.payload, Moved)]
                return sum(e.at_ms > since for e in moved)
        raise AssertionError(measure)


PARCELS = ("p0", "p1", "p2", "p3", "p4")

_PAYLOADS = st.one_of(
    st.builds(Registered, st.sampled_from(DEPOTS), st.floats(0.5, 50)),
    st.builds(Moved, st.sampled_from((*DEPOTS, "lost"))),
    st.builds(Scanned, st.integers(1, 90)),
)


@st.composite
def ledgers(draw: st.DrawFn, most: int = 25) -> list[Event]:
    """Events in any order of kinds, several at one instant among them."""
    drawn = draw(
        st.lists(st.tuples(st.sampled_from(PARCELS), _PAYLOADS, st.sampled_from((0, 1, DAY_MS))), max_size=most)
    )
    at_ms, events = START_MS, []
    for seq, (parcel, payload, later) in enumerate(drawn):
        at_ms += later
        events.append(event(seq, at_ms, parcel, payload))
    return events


@st.composite
def vectors(
    draw: st.DrawFn, events: Sequence[Event], partitions: int, classes: Iterable[str] = CLASSES
) -> dict[str, Cut]:
    """A cut of its own for each class, from before the first event to beyond the last."""
    cut = st.builds(Cut, st.fixed_dictionaries({p: st.integers(-1, len(events)) for p in range(partitions)}))
    return {cls: draw(cut) for cls in classes}


def every_question() -> list[tuple[str, dict[str, Any]]]:
    """Each measure with each of its entities, one that never exists among them."""
    days = [{"days": n} for n in (1, 7)]
    return [
        *(("parcels_in_depot", {"depot": depot}) for depot in DEPOTS),
        ("fullest_depot", {}),
        *(("weight_of", {"parcel": parcel}) for parcel in (*PARCELS, "p404")),
        *(("scans_recent", each) for each in days),
        *(("scanned_in_depot", {"depot": depot, **each}) for depot in DEPOTS for each in days),
        *(("activity_of", {"parcel": parcel}) for parcel in (*PARCELS, "p404")),
        *(("moves_window", each) for each in days),
    ]
