"""The page in a real browser: nothing loaded, nothing wider than the screen, everything there without a script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from churnbench_scorer import html_report
from tests.scorer.stories import STORY
from tests.scorer.study import Study
from tests.toy import REGISTRY

pytestmark = pytest.mark.chromium

WIDER = """() => [...document.querySelectorAll('body *')]
    .filter(e => !e.parentElement.closest('.box, svg') && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    quiet = ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as driver:
        try:
            # In a container there is no sandbox to enter; the page is our own.
            browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", *quiet])
        except playwright.Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]}; install Debian's chromium")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs whose names and values are long."""
    study = Study()
    ttls = {policy.name: policy.ttl_ms for policy in REGISTRY.classes if policy.ttl_ms is not None}
    answers = [msgspec.structs.replace(a, value="unbroken" * 60) for a in study.answers]
    long = {"settings": {"stores": "a store with a long name " * 8}, "answers": answers, "run_id": "run-" + "x" * 90}
    first = study.result(refreshes=study.refreshes, ticks=study.scene.ticks, ttls_ms=ttls, **long)
    target = tmp_path_factory.mktemp("page") / "report.html"
    results = [first, msgspec.structs.replace(first, refresh="off")]
    target.write_text(html_report(results, {e.seq: e for e in STORY}), encoding="utf-8")
    return target


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_is_wider_than_the_screen_and_nothing_is_loaded(
    browser: Any, page: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(page.as_uri())
    tab.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert (asked, said) == ([page.as_uri()], [])
    assert tab.evaluate("() => document.documentElement.scrollWidth") == width
    assert tab.evaluate(WIDER) == []
    background = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is (scheme == "light")
    context.close()


def test_without_a_script_answers_open_and_on_paper_they_stand_open(browser: Any, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    gold = tab.locator("dt", has_text="True for the data read").first
    assert not gold.is_visible()
    tab.locator("summary", has_text="parcels_in_depot").first.click()
    assert gold.is_visible()
    tab.reload()
    tab.emulate_media(media="print")
    assert gold.is_visible()
    assert not tab.locator("nav").is_visible()
    context.close()
