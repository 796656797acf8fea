"""A domain from an installed package of its own goes through everything: nothing but it knows its subject."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Toy = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toy]:
    """The command line with the toy domain installed beside the others, and chosen."""
    site = tmp_path_factory.mktemp("site")
    info = site / "toy_domain-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-domain\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[churnbench.domains]\ntoy = tests.toy:TOY\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CHURNBENCH_")}
    environment |= {
        "CHURNBENCH_HOME": str(tmp_path_factory.mktemp("home")),
        "CHURNBENCH_DOMAIN": "toy",
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
    }

    def call(*arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "churnbench_cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=300,
        )
        assert done.returncode == expect, done.stderr
        return done

    yield call
    call("stop")


WALK = ("--preset", "small", "--seed", "7", "--t-prime", "2024-01-05", "--t", "2024-01-15")


def test_the_toy_world_is_built_verified_described_and_exported(toy: Toy) -> None:
    built = json.loads(toy("world", "build", "--preset", "small", "--seed", "7", "--json").stdout)
    assert built["manifest"]["events"] == 530
    assert len(toy("world", "export", "--preset", "small", "--seed", "7").stdout.splitlines()) == 530
    toy("world", "verify", "--preset", "small", "--seed", "7")
    assert "moves" in toy("world", "describe", "--preset", "small", "--seed", "7").stdout


@pytest.mark.parametrize("partitions", ["1", "3"])
def test_a_run_over_the_toy_world_errs_by_stale_data_alone(toy: Toy, partitions: str) -> None:
    counts = {}
    for refresh in ("tiered", "off"):
        run = json.loads(
            toy("run", *WALK, "--refresh", refresh, "--partitions", partitions, "--n", "60", "--json").stdout
        )
        assert run["tasks"] == 60
        assert run["counts"]["reasoning_error"] == run["counts"]["unanswered"]
        assert run["counts"]["freshness_error"] == run["exposed"]
        counts[refresh] = run["counts"]
        assert "60 verdicts derived anew, none differs" in toy("verify", run["run_id"]).stdout
    assert counts["off"]["freshness_error"] > counts["tiered"]["freshness_error"]


def test_the_toy_sources_are_replayed_to_a_time(toy: Toy) -> None:
    world = json.loads(toy("world", "list", "--json").stdout)[0]["world"]
    found = json.loads(toy("replay", world, "--at", "2024-01-10", "--source", "warehouse", "--json").stdout)
    assert found["sources"]["warehouse"]["rows"] == {"parcels": 30, "scans": 200, "depots": 4}


def test_the_doctor_finds_both_domains(toy: Toy) -> None:
    checks = {check["name"]: check for check in json.loads(toy("doctor", "--json").stdout)}
    assert checks["domains"]["found"] == "sam, toy"
    assert all(check["well"] for check in checks.values())
