"""Events on the wire: golden files of every version, canonical lines, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from churnbench.errors import DecodeError, UsageError
from churnbench.events import canonical_line, from_millis, time_text, to_millis
from tests.toy import TOY, Moved, Registered, Scanned, event

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("parcel_registered_v1", event(0, 1704067200000, "p001", Registered("north", 12.5))),
        ("parcel_moved_v1", event(8, 1704153600123, "p001", Moved("west"))),
        ("parcel_scanned_v1", event(7, 1704153600000, "p001", Scanned(180))),
        ("parcel_scanned_v2", event(7, 1704153600000, "p001", Scanned(180))),
    ],
)
def test_every_version_ever_written_decodes_to_the_newest(file: str, expected: object) -> None:
    assert TOY.codec.decode((GOLDEN / f"{file}.json").read_bytes()) == expected


@pytest.mark.parametrize("file", ["parcel_registered_v1", "parcel_moved_v1", "parcel_scanned_v2"])
def test_the_newest_version_is_written_to_the_byte(file: str) -> None:
    golden = (GOLDEN / f"{file}.json").read_bytes().strip()
    assert TOY.codec.encode(TOY.codec.decode(golden)) == golden


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((b"parcel_moved", b"parcel_eaten"), "unknown kind 'parcel_eaten'; known: parcel_moved"),
        ((b'"version":1', b'"version":2'), "version 2; known: 1 to 1|cannot be lifted"),
        ((b'"depot":"west"', b'"depot":7'), "payload of parcel_moved does not fit"),
        ((b'"payload":{"depot":"west"}', b'"payload":{}'), "payload of parcel_moved does not fit"),
        ((b'"entity_type":"parcel"', b'"entity_type":"truck"'), "about a parcel, not a 'truck'"),
        ((b"{", b"["), "is not an event"),
        ((b'"seq":8', b'"seq":"8"'), "is not an event"),
        ((b"}", b""), "is not an event"),
    ],
)
def test_a_record_that_is_no_event_says_where_and_why(change: tuple[bytes, bytes], why: str) -> None:
    value = (GOLDEN / "parcel_moved_v1.json").read_bytes().strip()
    with pytest.raises(DecodeError, match=f"w partition 3 offset 9.*({why})"):
        TOY.codec.decode(value.replace(*change), "w partition 3 offset 9")


def test_a_canonical_line_has_an_iso_date_at_midnight_and_milliseconds_otherwise() -> None:
    assert canonical_line(event(3, 1704153600000, "p1", Moved("é"))) == (
        '{"seq": 3, "at": "2024-01-02", "kind": "parcel_moved", "entity_type": "parcel", '
        '"entity_id": "p1", "payload": {"depot": "\\u00e9"}}'
    )
    assert '"at": "2024-01-02T00:00:00.001Z"' in canonical_line(event(3, 1704153600001, "p1", Moved("x")))
    assert canonical_line(event(3, 0, "p1", Scanned(1))).endswith('"payload": {"seconds": 1}, "version": 2}')


@given(st.integers(-(10**13), 10**14))
def test_milliseconds_survive_the_way_to_datetime_and_back(millis: int) -> None:
    assert to_millis(from_millis(millis)) == millis


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="no time zone"):
        to_millis(datetime(2024, 1, 1))  # noqa: DTZ001 - the point of the test
    assert to_millis(datetime(2024, 1, 1, tzinfo=UTC)) == 1704067200000
    assert time_text(1704067200000) == "2024-01-01"
