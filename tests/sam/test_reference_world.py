"""The reference world is the published one, to the byte, wherever and however it is built."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Event, canonical_line
from churnbench_sam._params import ReferenceParameters
from churnbench_sam._presets import PRESETS, preset
from churnbench_sam._simulator import simulate

DIGEST = "4c49ac0318ef4739eeaaf1d01912c9fb9abfd1a9cdce311ba6d7c2027c6680e9"
REFERENCE = PRESETS["reference"].parameters


def test_canonical_lines_have_the_published_digest_and_size(reference_events: list[Event]) -> None:
    lines = "".join(canonical_line(event) + "\n" for event in reference_events).encode()
    assert hashlib.sha256(lines).hexdigest() == DIGEST
    assert len(lines) == 10_915_819


def test_events_by_kind_are_the_published_ones(reference_events: list[Event]) -> None:
    assert Counter(event.kind for event in reference_events) == {
        "consumption_logged": 54_000,
        "user_hired": 717,
        "license_reassigned": 605,
        "user_offboarded": 237,
        "license_purchased": 200,
        "license_assigned": 200,
        "license_unassigned": 170,
        "user_moved_cost_center": 112,
        "price_changed": 77,
        "contract_renewed": 27,
        "contract_signed": 25,
    }


def test_seq_counts_from_zero_and_time_never_goes_back(reference_events: list[Event]) -> None:
    assert [event.seq for event in reference_events] == list(range(56_370))
    times = [event.at_ms for event in reference_events]
    assert times == sorted(times)


def test_a_fresh_process_with_another_hash_seed_writes_the_same_bytes() -> None:
    program = (
        "import hashlib, sys\n"
        "from churnbench.events import canonical_line\n"
        "from churnbench_sam._presets import PRESETS\n"
        "from churnbench_sam._simulator import simulate\n"
        "digest = hashlib.sha256()\n"
        "for event in simulate(PRESETS['reference'].parameters, 42):\n"
        "    digest.update((canonical_line(event) + '\\n').encode())\n"
        "print(digest.hexdigest())\n"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == DIGEST


def test_another_seed_gives_another_world() -> None:
    first, second = (
        [canonical_line(event) for _, event in zip(range(50), simulate(REFERENCE, seed), strict=False)]
        for seed in (42, 43)
    )
    assert first != second


def test_every_number_of_a_payload_is_a_python_number(reference_events: list[Event]) -> None:
    types = {type(value) for event in reference_events for value in msgspec.to_builtins(event.payload).values()}
    assert types == {int, float, str}


def test_events_are_made_while_they_are_read() -> None:
    endless = msgspec.structs.replace(REFERENCE, days=1_000_000)
    assert next(iter(simulate(endless, 1))).seq == 0


def test_a_negative_seed_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="-1"):
        simulate(REFERENCE, -1)


def test_parameters_that_no_process_takes_are_refused() -> None:
    class Other(ReferenceParameters, frozen=True, kw_only=True):
        pass

    with pytest.raises(UsageError, match="Other"):
        simulate(Other(**msgspec.structs.asdict(REFERENCE)), 1)


def test_an_unknown_preset_names_the_valid_ones() -> None:
    with pytest.raises(NotFoundError, match=r"'refrence'.*reference"):
        preset("refrence")


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_of_a_preset_has_a_source(name: str) -> None:
    assert set(PRESETS[name].sources) == set(PRESETS[name].parameters.__struct_fields__)
    assert PRESETS[name].name == name


def naive(params: ReferenceParameters, seed: int) -> list[tuple[str, str, tuple[object, ...]]]:
    """The published rules in their plainest form: lists are copied, filtered and searched."""
    rng = np.random.default_rng(seed)
    out: list[tuple[str, str, tuple[object, ...]]] = []
    prices: dict[str, float] = {}
    users: list[str] = []
    holders: dict[str, str] = {}
    hired = 0

    def pick(items: list[str]) -> str:
        skewed = rng.random() < 0.60
        if skewed and len(items) >= 10:
            return items[rng.integers(0, max(1, len(items) // 10))]
        return items[rng.integers(0, len(items))]

    def cost_center() -> str:
        return f"cc_{rng.integers(0, params.cost_centers):03d}"

    def hire() -> None:
        nonlocal hired
        users.append(f"usr_{hired:06d}")
        out.append(("user_hired", users[-1], (cost_center(),)))
        hired += 1

    products = [f"prd_{number:04d}" for number in range(params.products)]
    contracts = [f"ctr_{number:04d}" for number in range(params.contracts)]
    for product in products:
        prices[product] = round(rng.uniform(20, 500), 2)
        out.append(("price_changed", product, (prices[product], None, None)))
    for contract in contracts:
        vendor = rng.integers(0, params.vendors)
        out.append(("contract_signed", contract, (vendor, rng.choice([12, 24, 36]))))
    for _ in range(params.users):
        hire()
    for number in range(params.licenses):
        license_id, product, user = f"lic_{number:06d}", products[rng.integers(0, params.products)], users[number]
        out.append(("license_purchased", license_id, (product, 1, prices[product])))
        out.append(("license_assigned", license_id, (user, product)))
        holders[license_id] = user
    for _ in range(params.days):
        rates = (
            params.hires_per_day,
            params.offboards_per_day,
            params.reassignments_per_day,
            params.price_changes_per_day,
            params.renewals_per_day,
            params.cost_center_moves_per_day,
        )
        hires, offboards, reassignments, changes, renewals, moves = [rng.poisson(rate) for rate in rates]
        for _ in range(hires):
            hire()
        for _ in range(offboards):
            if users:
                user = pick(users)
                for license_id in sorted(license_id for license_id, holder in holders.items() if holder == user):
                    out.append(("license_unassigned", license_id, (user, "offboard")))
                    del holders[license_id]
                out.append(("user_offboarded", user, ()))
                users.remove(user)
        for _ in range(reassignments):
            held = sorted(holders)
            if held and len(users) >= 2:
                license_id = pick(held)
                before = holders[license_id]
                holders[license_id] = pick([user for user in users if user != before])
                out.append(("license_reassigned", license_id, (before, holders[license_id])))
        for _ in range(changes):
            product = pick(products)
            change = rng.normal(0, 0.15)
            old, prices[product] = prices[product], max(1.0, round(prices[product] * (1 + change), 2))
            out.append(("price_changed", product, (prices[product], old, round(change, 4))))
        for _ in range(renewals):
            if contracts:
                contract = contracts[rng.integers(0, len(contracts))]
                out.append(("contract_renewed", contract, (rng.choice([12, 24, 36]),)))
        for _ in range(moves):
            if users:
                user = users[rng.integers(0, len(users))]
                out.append(("user_moved_cost_center", user, (cost_center(),)))
        for _ in range(params.consumption_per_day if users else 0):
            user, product = pick(users), pick(products)
            out.append(("consumption_logged", user, (product, rng.integers(5, 180), rng.integers(0, 500))))
    return out


@given(
    users=st.integers(1, 60),
    licensed=st.floats(0, 1),
    products=st.integers(1, 30),
    contracts=st.integers(0, 12),
    offboards=st.floats(0, 12),
    reassignments=st.floats(0, 20),
    hires=st.floats(0, 6),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_small_worlds_follow_the_published_rules_taken_literally(
    users: int,
    licensed: float,
    products: int,
    contracts: int,
    offboards: float,
    reassignments: float,
    hires: float,
    seed: int,
) -> None:
    params = msgspec.structs.replace(
        REFERENCE,
        days=20,
        users=users,
        licenses=int(users * licensed),
        products=products,
        contracts=contracts,
        offboards_per_day=offboards,
        reassignments_per_day=reassignments,
        hires_per_day=hires,
        price_changes_per_day=1.0,
        renewals_per_day=1.0,
        cost_center_moves_per_day=2.0,
        consumption_per_day=5,
    )
    got = []
    for event in simulate(params, seed):
        values = msgspec.structs.astuple(event.payload)
        values = values[:3] if event.kind == "price_changed" else tuple(v for v in values if v is not None)
        got.append((event.kind, event.entity_id, values))
    assert got == naive(params, seed)
