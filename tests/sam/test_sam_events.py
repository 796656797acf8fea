"""Payloads go over the wire and back, and grow without changing what is already written."""

from __future__ import annotations

import json

import msgspec
import pytest

from churnbench.errors import DecodeError
from churnbench.events import Codec, Event, canonical_line
from churnbench_sam import _events as ev
from churnbench_sam._events import KINDS

CODEC = Codec(KINDS)


def event(kind: str, entity_type: str, payload: msgspec.Struct) -> Event:
    return Event(0, 0, kind, entity_type, "x_0001", payload)


def test_one_kind_for_each_payload() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) == 11
    assert {kind.payload for kind in KINDS} == set(ev.Payload.__subclasses__())
    assert {kind.entity_type for kind in KINDS} == {"user", "license", "contract", "product"}


def test_the_reference_ledger_survives_the_wire(reference_events: list[Event]) -> None:
    for sent in reference_events:
        if sent.kind != "consumption_logged" or sent.seq % 50 == 0:
            assert CODEC.decode(CODEC.encode(sent)) == sent


def test_from_is_written_under_its_own_name() -> None:
    moved = event("license_reassigned", "license", ev.LicenseReassigned("usr_000001", "usr_000002"))
    assert json.loads(canonical_line(moved))["payload"] == {"from": "usr_000001", "to": "usr_000002"}
    assert CODEC.decode(CODEC.encode(moved)) == moved


def test_unset_fields_are_not_written_and_set_ones_stand_last() -> None:
    plain, full = ev.ContractSigned(3, 12), ev.ContractSigned(3, 12, "Pinnacle Tech", 1000.5, 60)
    assert list(msgspec.to_builtins(plain)) == ["vendor_idx", "term_months"]
    assert list(msgspec.to_builtins(full)) == ["vendor_idx", "term_months", "vendor", "annual_value_usd", "notice_days"]
    assert CODEC.decode(CODEC.encode(event("contract_signed", "contract", full))).payload == full


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_only_trailing_fields_are_optional(kind: msgspec.Struct) -> None:
    fields = msgspec.structs.fields(kind.payload)  # type: ignore[attr-defined]
    required = [field.required for field in fields]
    assert required == sorted(required, reverse=True)
    assert all(field.default is None for field in fields if not field.required)


@pytest.mark.parametrize(
    "payload",
    ['{"cost_center_id": 1}', "{}", '{"cost_center_id": "cc_000", "surprise": 1}'],
    ids=["type", "gone", "more"],
)
def test_a_payload_that_does_not_fit_is_a_decode_error(payload: str) -> None:
    record = f'{{"seq":0,"at":0,"kind":"user_hired","entity_type":"user","entity_id":"usr_000000","payload":{payload}}}'
    with pytest.raises(DecodeError, match="user_hired"):
        CODEC.decode(record.encode(), "ledger-0 offset 7")
