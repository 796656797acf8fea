"""What a study leaves for people to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.e2e.conftest import Churnbench

Study = dict[tuple[int, str], dict[str, Any]]


def page(path: Path) -> tuple[ElementTree.Element, str]:
    """The page as a tree and as its text."""
    tree = ElementTree.fromstring(path.read_text(encoding="utf-8").partition("\n")[2])  # noqa: S314 - our own
    return tree, " ".join(" ".join(tree.itertext()).split())


def test_the_study_has_one_page_with_the_published_tables(home: Path, study: Study) -> None:
    first = study[1, "tiered"]["run_id"]
    tree, text = page(home / "reports" / f"{first}.html")
    assert (home / "reports" / f"{first}.md").exists()
    assert "After 1 day: 8 of 180, whatever the refresh policy." in text
    assert "After 28 days: 25 of 180 (13.9 %) with refresh tiered and 69 of 180 (38.3 %) with refresh off." in text
    assert "left 44 stale answers fewer than off" in text
    assert "28 days 25 stale 67.8 % right 69 stale 43.3 % right" in text
    assert "prices 1 1 5 29" in text
    assert "40.2" in text
    assert "40.16" not in text
    polylines = [line for line in tree.iter("polyline") if len(line.get("points", "").split()) > 10]
    # The two hot classes fall every second day of 28; the warm ones three times.
    assert len(polylines) >= 2
    assert sum(d.get("class") != "group" for d in tree.iter("details")) == 8 + 8 + 25 + 69


def test_every_run_has_its_own_page_and_its_cost_of_refreshing(home: Path, study: Study) -> None:
    for run in study.values():
        folder = home / "runs" / run["run_id"]
        _, text = page(folder / "report.html")
        assert f"{run['counts']['freshness_error']} of 180" in text
        assert (folder / "report.md").exists()
    off, tiered = (study[28, policy]["refresh_cost"] for policy in ("off", "tiered"))
    assert off["refreshing"]["refreshes"] == 0
    assert off["staging"]["rows"] == tiered["staging"]["rows"] > 0
    assert tiered["refreshing"]["refreshes"] == 37
    assert tiered["refreshing"]["rows"] > 0


def test_rescoring_writes_a_page_beside_the_first(home: Path, churnbench: Churnbench, study: Study) -> None:
    run_id = study[1, "off"]["run_id"]
    said = churnbench("rescore", run_id).stdout
    pages = sorted((home / "runs" / run_id).glob("report-*.html"))
    assert pages
    assert str(pages[-1]) in said


def test_the_terminal_names_the_page_and_rounds_the_causes(churnbench: Churnbench) -> None:
    said = churnbench("run", "--window", "28", "--refresh", "off").stdout.splitlines()
    assert max(map(len, said[:-1])) <= 80
    assert any(line.split()[-2:] == ["assignments", "40.2"] for line in said)
    assert said[-1].startswith("report ")
    assert said[-1].endswith("report.html")


def test_comparing_two_cells_tells_the_flips(churnbench: Churnbench, study: Study) -> None:
    one, other = study[28, "tiered"]["run_id"], study[28, "off"]["run_id"]
    found = json.loads(churnbench("runs", "compare", one, other, "--json").stdout)
    assert found["settings"] == {"refresh": ["tiered", "off"]}
    assert found["only_a_right"] - found["only_b_right"] == 44
    assert found["p_value"] < 1e-6
    assert len(found["flips"]) == found["only_a_right"] + found["only_b_right"]
    assert all(flip["a"]["causes"] or flip["b"]["causes"] for flip in found["flips"])
