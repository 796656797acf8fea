"""What the presets stress, calibrated and poisson have in common."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import tracemalloc
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from churnbench.errors import UsageError
from churnbench.events import Codec, Event, canonical_line
from churnbench_sam._events import KINDS
from churnbench_sam._params import Parameters, with_overrides
from churnbench_sam._presets import PRESETS
from churnbench_sam._rates import measured_rates
from churnbench_sam._simulator import PROCESSES, simulate
from tests.sam.laws import DAY_MS, Checker, in_order

SPREAD = ("stress", "calibrated", "poisson")


def world(name: str, seed: int = 1, **changes: object) -> list[Event]:
    return list(simulate(msgspec.structs.replace(PRESETS[name].parameters, **changes), seed))


def checker(name: str) -> Checker:
    return Checker(returns=name == "poisson", to_anybody=name == "poisson")


@pytest.mark.parametrize("name", SPREAD)
def test_a_whole_world_obeys_the_laws_of_an_estate(name: str) -> None:
    events = world(name, 42)
    in_order(events)
    checker(name).check(events)


SMALL = {
    "days": st.integers(1, 40),
    "users": st.integers(1, 30),
    "products": st.integers(1, 12),
    "contracts": st.integers(0, 8),
    "licenses": st.integers(0, 40),
    "vendors": st.integers(1, 3),
    "cost_centers": st.integers(1, 4),
}
RATES = {
    "hires_per_day": st.floats(0, 4),
    "offboards_per_day": st.floats(0, 6),
    "reassignments_per_day": st.floats(0, 8),
    "licenses_per_hire": st.floats(0, 3),
    "reclaim_same_day_share": st.floats(0, 0.5),
    "renewals_per_day": st.floats(0, 1),
    "vendor_change_share": st.floats(0, 1),
    "renewal_share": st.floats(0, 1),
    "status_flips_per_user_day": st.floats(0, 1),
    "holder_changes_per_license_day": st.floats(0, 1),
    "free_share": st.floats(0, 1),
}
SIGNED = {"skew_share", "renewal_price_mean"}  # chance can make them negative
FEW = {"consumption_per_day": 4, "sessions_per_user_day": 0.1}


@given(name=st.sampled_from(SPREAD), seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=120, deadline=None)
def test_any_small_world_obeys_them(name: str, seed: int, data: st.DataObject) -> None:
    fields = PRESETS[name].parameters.__struct_fields__
    changes = {field: data.draw(values, field) for field, values in (SMALL | RATES).items() if field in fields}
    changes |= {field: value for field, value in FEW.items() if field in fields}
    # With one user there is no other holder to go to.
    if name == "poisson":
        changes["users"] = max(2, changes["users"])
    events = world(name, seed, **changes)
    in_order(events)
    checker(name).check(events)
    params = msgspec.structs.replace(PRESETS[name].parameters, **changes)
    assert all(value >= 0 or math.isnan(value) for row, _, value in measured_rates(events, params) if row not in SIGNED)


@pytest.mark.parametrize("name", SPREAD)
def test_an_empty_estate_is_a_world_too(name: str) -> None:
    events = world(name, users=0, licenses=0, contracts=0, days=2)
    assert Counter(event.kind for event in events)["price_changed"] >= PRESETS[name].parameters.products
    in_order(events)
    checker(name).check(events)


@pytest.mark.parametrize("name", SPREAD)
def test_events_are_spread_over_the_day_to_the_millisecond(name: str) -> None:
    events = world(name, days=60)
    spread = [event.at_ms % DAY_MS for event in events if event.kind == "consumption_logged"]
    by_hour = np.bincount(np.array(spread) // 3_600_000, minlength=24)
    expected = len(spread) / 24
    assert np.all(abs(by_hour - expected) < 5 * expected**0.5)
    assert len({at_ms % 1000 for at_ms in spread}) > 900


@pytest.mark.parametrize("name", SPREAD)
def test_nothing_happens_after_the_last_day(name: str) -> None:
    params = PRESETS[name].parameters
    start_ms = next(event.at_ms for event in world(name, days=1) if event.kind == "user_hired")
    assert world(name, days=30)[-1].at_ms < start_ms + 30 * DAY_MS
    assert start_ms == int(np.datetime64(params.start, "ms").astype(int))


@pytest.mark.parametrize("name", SPREAD)
def test_a_fresh_process_with_another_hash_seed_writes_the_same_bytes(name: str) -> None:
    program = (
        "import hashlib, msgspec\n"
        "from churnbench.events import canonical_line\n"
        "from churnbench_sam._presets import PRESETS\n"
        "from churnbench_sam._simulator import simulate\n"
        f"params = msgspec.structs.replace(PRESETS[{name!r}].parameters, days=40)\n"
        "lines = ''.join(canonical_line(event) + '\\n' for event in simulate(params, 7))\n"
        "print(hashlib.sha256(lines.encode()).hexdigest())\n"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    here = "".join(canonical_line(event) + "\n" for event in world(name, 7, days=40))
    assert done.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


@pytest.mark.parametrize("name", SPREAD)
def test_another_seed_gives_another_world(name: str) -> None:
    assert [e.payload for e in world(name, 1, days=2)] != [e.payload for e in world(name, 2, days=2)]


@pytest.mark.parametrize("name", SPREAD)
def test_longer_worlds_begin_like_shorter_ones(name: str) -> None:
    short, long = world(name, days=10), world(name, days=20)
    assert long[: len(short)] == short


@pytest.mark.parametrize("name", SPREAD)
def test_the_ledger_survives_the_wire_in_python_numbers(name: str) -> None:
    codec = Codec(KINDS)
    events = world(name, days=20)
    assert [codec.decode(codec.encode(event)) for event in events] == events
    values = [value for event in events for value in msgspec.to_builtins(event.payload).values()]
    assert {type(value) for value in values} == {int, float, str}


@pytest.mark.parametrize("name", SPREAD)
def test_the_ledger_is_never_held(name: str) -> None:
    params = msgspec.structs.replace(PRESETS[name].parameters, days=1_000_000)
    events = simulate(params, 1)
    for _ in range(8_000):  # past the first day
        next(events)
    tracemalloc.start()
    for _ in range(20_000):
        next(events)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # as a list they take over ten times as much


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json_and_their_fields_tell_the_process(name: str) -> None:
    params = PRESETS[name].parameters
    plain = msgspec.to_builtins(params)
    fitting = [kind for kind in PROCESSES if set(kind.__struct_fields__) == set(plain)]
    assert fitting == [type(params)]
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(plain)), fitting[0]) == params


@pytest.mark.parametrize("name", PRESETS)
def test_every_figure_has_a_source_and_one_seat_a_licence(name: str) -> None:
    known = PRESETS[name]
    assert set(known.sources) == set(known.parameters.__struct_fields__)
    assert all(known.sources.values())
    assert known.parameters.seats_per_license == 1


@pytest.mark.parametrize("name", SPREAD)
def test_skew_is_that_of_the_reference_where_there_is_any(name: str) -> None:
    ours, published = (msgspec.structs.asdict(PRESETS[preset].parameters) for preset in (name, "reference"))
    skew = [field for field in ours if field.startswith("skew")]
    assert len(skew) == (0 if name == "poisson" else 3)
    assert all(ours[field] == published[field] for field in skew)


@pytest.mark.parametrize(
    ("name", "texts", "named"),
    [
        ("stress", {"reclaim_same_day_share": "0.7", "reclaim_week_share": "0.4"}, "reclaim_week_share"),
        ("stress", {"reclaim_longest_days": "7"}, "reclaim_longest_days"),
        ("stress", {"value_low_usd": "600000"}, "value_high_usd"),
        ("stress", {"session_minutes_low": "180"}, "session_minutes_high"),
        ("calibrated", {"terms_months": "12"}, "one share for each term"),
        ("calibrated", {"terms_shares": "0.5,0.3,0.1"}, "add up to 0.9"),
        ("calibrated", {"renewals_per_day": "1"}, "renewal_share"),
        ("calibrated", {"notice_days": ""}, "notice_days"),
        ("poisson", {"rise_low": "0.2"}, "rise_high"),
        ("poisson", {"rise_low": "0.005"}, "rise_low"),
        ("poisson", {"free_share": "1.5"}, "free_share"),
        ("poisson", {"users": "0"}, "licenses"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_one_line(name: str, texts: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError, match=named) as error:
        with_overrides(PRESETS[name].parameters, texts)
    assert "\n" not in str(error.value)


def test_shares_may_be_decimals() -> None:
    params = with_overrides(PRESETS["calibrated"].parameters, {"terms_shares": "0.1,0.2,0.7"})
    assert isinstance(params, Parameters)
    assert next(iter(simulate(params, 1))).kind == "contract_signed"
