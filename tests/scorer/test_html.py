"""The report as a page: what it shows, and what it cannot be made to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from churnbench.records import Answer, Refresh, Retrieval
from churnbench.registry import DAY_MS
from churnbench_scorer import RunResult, html_report, score, summarize
from churnbench_scorer._saw_tooth import age_points, figures
from churnbench_scorer._stale import STALE_SHOWN
from tests.scorer.stories import STORY, Scene, T, day
from tests.scorer.study import Study, ask, refreshed
from tests.toy import REGISTRY, TOY, Moved, event

EVENTS = {e.seq: e for e in STORY}
TTLS = {policy.name: policy.ttl_ms for policy in REGISTRY.classes if policy.ttl_ms is not None}
VOID = {"meta", "br", "img", "input", "hr", "link"}


@pytest.fixture(scope="module")
def study() -> Study:
    return Study()


@pytest.fixture(scope="module")
def result(study: Study) -> RunResult:
    return study.result(refreshes=study.refreshes, ticks=study.scene.ticks, ttls_ms=TTLS)


def parsed(page: str) -> ElementTree.Element:
    """The page as a tree; fails where a tag is not closed or an attribute not quoted."""
    doctype, _, rest = page.partition("\n")
    assert doctype == "<!DOCTYPE html>"
    return ElementTree.fromstring(rest)  # noqa: S314 - the page is our own


def text_of(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def section(page: str, anchor: str) -> str:
    """Text from the heading `anchor` to the next one."""
    start = page.index(f'<h2 id="{anchor}">')
    end = page.find("<h2 ", start + 1)
    return " ".join(re.sub(r"<[^>]+>", " ", page[start : end if end > 0 else None]).split())


def tables(tree: ElementTree.Element) -> list[list[list[str]]]:
    return [[[text_of(cell) for cell in row] for row in table.iter("tr")] for table in tree.iter("table")]


def test_the_page_is_well_formed_and_loads_and_runs_nothing(result: RunResult) -> None:
    page = html_report([result], EVENTS)
    tree = parsed(page)
    tags = {element.tag for element in tree.iter()}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "embed", "form", "base"})
    assert not {name for element in tree.iter() for name in element.attrib if name.startswith("on") or name == "src"}
    assert all(element.get("href", "#").startswith("#") for element in tree.iter())
    assert not re.search(r"https?:|//|url\(|@import", page.replace("</", ""))
    policy = next(meta.get("content") for meta in tree.iter("meta") if meta.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_every_link_of_the_page_leads_somewhere_and_ids_are_unique(study: Study, result: RunResult) -> None:
    tree = parsed(html_report([result, msgspec.structs.replace(result, refresh="off")], EVENTS))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {element.get("href", "")[1:] for element in tree.iter("a")} <= set(ids)


def test_light_dark_and_paper_are_styled_without_a_script(result: RunResult) -> None:
    tree = parsed(html_report([result], EVENTS))
    style = next(text_of(element) for element in tree.iter("style"))
    assert "@media (prefers-color-scheme: dark)" in style
    assert "@media print" in style
    assert {meta.get("name"): meta.get("content") for meta in tree.iter("meta")}["color-scheme"] == "light dark"


def test_it_says_first_how_many_were_stale_why_and_at_what_cost(result: RunResult) -> None:
    tree = parsed(html_report([result], EVENTS))
    first = next(element for element in tree.iter("div") if element.get("class") == "answers")
    said = [text_of(part) for part in first]
    assert said[0].startswith("How many were stale? After 4 days: 1 of 5 (20.0 %) with refresh tiered.")
    assert said[1] == "Why? The stale answer (4 days, tiered) is due to changes of location (1)."
    # Staged: locations, stock, depots, documents; refreshed: locations, once, with 3 rows of 90 bytes and 1 call.
    assert "4 days, tiered: 1 refresh wrote 3 rows (90 B) in 0.1 s, with 1 call to a source." in said[2]
    assert "The first staging wrote 12 rows (360 B) into 4 tables." in said[2]


def test_table_one_has_a_row_a_window_and_a_column_a_policy(study: Study, result: RunResult) -> None:
    calm = summarize(study.questions[3:4], study.answers[3:5], [v for v in study.verdicts if v.task_id == "t3"], [])
    off = msgspec.structs.replace(result, refresh="off", summary=calm, verdicts=[], run_id="run-2", window=28)
    tree = parsed(html_report([msgspec.structs.replace(result, window=28), off], EVENTS))
    grid = tables(tree)[0]
    assert grid == [
        ["", "refresh tiered", "refresh off"],
        ["28 days", "1 stale 50.0 % right", "0 stale 100.0 % right"],
    ]
    assert "and left no fewer stale answers than off" in text_of(tree)


def test_the_other_tables_hold_the_figures_of_the_summary(result: RunResult) -> None:
    page = html_report([result], EVENTS)
    assert "location 2" in section(page, "ages")
    assert "registration 3" in section(page, "ages")
    assert "location 1 1" in section(page, "classes")
    assert "1 0.0 % 2 100.0 %" in section(page, "tiers")
    assert "4 days, tiered 12 1 3 90 B 1 0.1 s 1" in section(page, "refreshing")
    assert "locations (location) 3 1 3 90 B 1 0.1 s" in section(page, "refreshing")
    assert "4 days, tiered 5 2 1 0 1 1 0 1 2 2" in section(page, "verdicts")


def test_figures_are_rounded_for_people(result: RunResult) -> None:
    summary = msgspec.structs.replace(
        result.summary, by_cause={"location": 40.16667, "weight": 0.00001}, by_staged={"weight": 1 / 3}
    )
    page = html_report([msgspec.structs.replace(result, summary=summary)], {})
    assert "location 0 40.2" in section(page, "classes")
    assert "weight 0.3 &lt; 0.1" in section(page, "classes")
    assert "40.16" not in page


def test_each_stale_answer_shows_both_golds_the_vector_and_the_events_with_the_marked_ones_flagged(
    result: RunResult,
) -> None:
    tree = parsed(html_report([result], EVENTS))
    (item,) = [d for d in tree.iter("details") if d.get("class") != "group"]
    text = text_of(item)
    assert "parcels_in_depot {'depot': 'north'}?" in text
    assert "Answered 3 True on 2024-01-05 1 True for the data read 3 Made wrong by location" in text
    assert "Fresh location would have mended it." in text
    reads, events = tables(item)
    assert reads[1:] == [
        ["location", "2024-01-03", "2 days (lapsed)", "1 day", "100 %"],
        ["registration", "2024-01-03", "2 days", "3 days", "-"],
    ]
    assert events[1] == ["● cause", "6", "2024-01-04", "parcel_moved", "p1", "depot east"]
    assert [row[1] for row in events[1:]] == ["6", "7", "9"]


def test_answers_with_the_same_events_list_them_once(study: Study, result: RunResult) -> None:
    stale = next(v for v in study.verdicts if v.verdict == "freshness_error")
    twice = [stale, msgspec.structs.replace(stale, task_id="t1")]
    page = html_report([msgspec.structs.replace(result, verdicts=twice)], EVENTS)
    assert 'The same events as under <a href="#r0-t0">t0</a>.' in page
    assert page.count("parcel_moved") == 3


def torn() -> RunResult:
    """Places of day 1 with scans of day 4, read live: p0 was scanned since, but had left the north."""
    scene = Scene([*STORY[:5], event(5, day(2), "p0", Moved("west")), event(6, day(3), "p1", STORY[8].payload)])
    question = ask(0, "scanned_in_depot", {"depot": "north", "days": 3})
    live = msgspec.structs.replace(scene.cut(4), at_ms=None)
    cuts = {"location": scene.cut(1), "scans": live}
    read = Retrieval("federated", "staged", "scanned_in_depot", [], "", 1, 0.0, cuts, {"location": day(1)})
    answers = [Answer("t0", T, T, "2", 2, "answered", [read])]
    verdicts = score(scene.index, TOY, REGISTRY, scene.ticks, [question], answers)
    summary = summarize([question], answers, verdicts, [])
    records: dict[str, Any] = {"questions": [question], "answers": answers, "verdicts": verdicts, "summary": summary}
    return Study().result(**records, ticks=scene.ticks, ttls_ms=TTLS)


def test_a_torn_answer_is_explained_by_the_times_that_it_mixes() -> None:
    text = text_of(parsed(html_report([torn()], {})))
    assert (
        "At no single time was this answer true: it puts together location as of 2024-01-02 and scans as of 2024-01-05."
        in text
    )
    assert "scans 2024-01-05 live - -" in text
    assert "Torn, put together from data of different ages that was never true at one time: 1 (4 days, tiered)." in text


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></details></main><h1>mine</h1>",
    "{{ 7 * 7 }}{% raw %}",
    "null \x00 bell \x07 half \ud800 end",
    "&lt;b&gt; & <!-- ",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_does_nothing(study: Study, result: RunResult, text: str) -> None:
    replace = msgspec.structs.replace
    verdict = next(v for v in study.verdicts if v.verdict == "freshness_error")
    sly = replace(
        result,
        run_id=text,
        world=text,
        registry=text,
        reader=text,
        refresh=text,
        settings={text: text},
        questions=[replace(q, text=text, measure=text) for q in result.questions],
        answers=[replace(a, value=text, raw=text) for a in result.answers],
        verdicts=[replace(verdict, gold=text, gold_at_vector=text, reread=[text])],
        refreshes=[replace(r, table=f"{text}{r.table}", owner=text) for r in result.refreshes],
        ttls_ms={text: DAY_MS},
    )
    events = {seq: replace(e, entity_id=text, payload=Moved(text)) for seq, e in EVENTS.items()}
    page, tame = html_report([sly], events), html_report([result], EVENTS)
    page.encode("utf-8")
    tree = parsed(page)
    kinds = {element.tag for element in parsed(tame).iter()}
    assert {element.tag for element in tree.iter()} <= kinds
    assert not {name for element in tree.iter() for name in element.attrib if name.startswith("on")}
    shown = re.sub("[\x00-\x08\x0e-\x1f\ud800-\udfff]", "\ufffd", text)
    assert " ".join(shown.split()) in text_of(tree)


def test_a_very_long_answer_is_cut_off(result: RunResult) -> None:
    long = [msgspec.structs.replace(a, value="x" * 100_000) for a in result.answers]
    page = html_report([msgspec.structs.replace(result, answers=long)], EVENTS)
    assert "x… (100,000 characters)" in page
    assert len(page) < 60_000


def test_many_stale_answers_are_counted_not_listed(study: Study, result: RunResult) -> None:
    verdict = next(v for v in study.verdicts if v.verdict == "freshness_error")
    number = STALE_SHOWN + 7
    replace = msgspec.structs.replace
    many = replace(
        result,
        questions=[replace(study.questions[0], task_id=f"t{n}") for n in range(number)],
        answers=[replace(study.answers[0], task_id=f"t{n}") for n in range(number)],
        verdicts=[replace(verdict, task_id=f"t{n}") for n in range(number)],
    )
    many = replace(many, summary=summarize(many.questions, many.answers, many.verdicts, []))
    page = html_report([many], EVENTS)
    assert page.count('<span class="id">') == STALE_SHOWN
    assert "7 more are in the run's verdicts." in page


def test_an_invalid_run_says_so_at_the_top(result: RunResult) -> None:
    page = html_report([msgspec.structs.replace(result, dead_letters=3)], EVENTS)
    assert page.index("is invalid: it met 3 records that are no events") < page.index("How many were stale?")


def test_a_page_of_no_runs_or_of_a_run_without_refreshes_is_a_page(study: Study) -> None:
    assert "There are no runs to report on." in text_of(parsed(html_report([], {})))
    bare = text_of(parsed(html_report([study.result()], {})))
    assert "No refreshes are at hand to draw ages from." in bare


def walk(scene: Scene, table: str, owner: str, days: Sequence[int]) -> list[Refresh]:
    return [refreshed(scene, table, owner, number) for number in days]


def test_ages_are_a_saw_tooth_that_falls_at_each_refresh(study: Study) -> None:
    refreshes = walk(study.scene, "locations", "location", (0, 2, 3))
    points = [((at - day(0)) / DAY_MS, age / DAY_MS) for at, age in age_points(refreshes, "location", day(4))]
    assert points == [(0, 0), (2, 2), (2, 0), (3, 1), (3, 0), (4, 1)]
    assert age_points(refreshes, "weight", day(4)) == []


def test_a_class_is_as_old_as_the_oldest_of_its_tables(study: Study) -> None:
    both = [*walk(study.scene, "stock", "registration", (0, 2)), *walk(study.scene, "depots", "registration", (0, 3))]
    points = [((at - day(0)) / DAY_MS, age / DAY_MS) for at, age in age_points(both, "registration", day(4))]
    assert points == [(0, 0), (2, 2), (2, 2), (3, 3), (3, 1), (4, 2)]


def test_each_class_is_drawn_with_its_time_to_live(study: Study, result: RunResult) -> None:
    (figure,) = figures([result])
    assert [panel.name for panel in figure.panels] == ["location", "registration", "weight"]
    location, _, weight = figure.panels
    assert (location.ttl_text, location.ttl is not None) == ("1 day", True)
    assert (weight.ttl_text, weight.ttl) == ("5 days", None)
    assert location.summary == "Age of location from 2024-01-01 to 2024-01-05: tiered ends 2 days old, 2 days at most."
    assert [mark.text for mark in figure.up] == ["0", "1", "2", "3", "4"]
    assert [mark.text for mark in figure.across] == ["01-01", "01-02", "01-03", "01-04", "01-05"]
    page = html_report([result], EVENTS)
    assert page.count("<polyline") == 3 + 1
    assert "TTL 5 days, above the scale" in page


def test_where_nothing_was_refreshed_and_nothing_lapsed_a_sentence_stands_for_the_figure(study: Study) -> None:
    staged = walk(study.scene, "stock", "registration", (2,))
    short = study.result(refreshes=staged, ttls_ms=TTLS, t_prime_ms=day(2))
    assert "Nothing was refreshed: every class grew 2 days old, within its TTL." in html_report([short], {})
