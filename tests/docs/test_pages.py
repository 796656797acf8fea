import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.conftest import PAGES, ROOT
from tools.docs import render

GENERATED = render()


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_generated_pages_are_what_the_code_says_now(page: Path) -> None:
    assert page.read_text() == GENERATED[page], "run python -m tools.docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_no_host(page: Path) -> None:
    assert re.findall(r"https?://[^\s)>]+", page.read_text()) == []


class Outside(HTMLParser):
    """Collects what a page loads or links to elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [
            f"{tag} {v}" for k, v in attrs if k in ("src", "href", "srcset") and re.match(r"(\w+:)?//", v or "")
        ]


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is in requirements/dev.txt")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").glob("*.html"))
    assert {page.stem for page in pages} >= {page.stem for page in (ROOT / "docs").glob("*.md")}
    for page in pages:
        parser = Outside()
        parser.feed(page.read_text())
        assert parser.found == [], page.name
    for style in (tmp_path / "site").rglob("*.css"):
        assert re.findall(r"url\([\"']?https?:", style.read_text()) == []
