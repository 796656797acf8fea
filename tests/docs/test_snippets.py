import re
from pathlib import Path

import pytest

from tests.docs.conftest import ANSWERS, BEGINNING, PAGES, ROOT, Shell, Snippet, matches, snippets

MAKEFILE = (ROOT / "Makefile").read_text()
SHOWN = {page: found for page in PAGES if (found := snippets(page))}


def carried_out(snippet: Snippet, shell: Shell, study: str) -> tuple[list[str], list[str]]:
    """The lines shown and the lines printed."""
    command, shown = snippet.command, snippet.shown
    if command == BEGINNING:
        return [*shown, "..."], study.splitlines()
    if command.startswith("make "):
        return shown, study.splitlines() if command == "make run" else []
    if re.search(r"\b(RUN|OTHER)\b", command):
        runs = shell.runs()
        for name, run in (("RUN", runs[-1]), ("OTHER", runs[-2] if len(runs) > 1 else "")):
            command = re.sub(rf"\b{name}\b", run, command)
            shown = [re.sub(rf"\b{name}\b", run, line) for line in shown]
    return shown, shell(command.replace("FILE.jsonl", str(ANSWERS))).splitlines()


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_every_command_of_a_page_runs_and_prints_what_is_shown(page: Path, shell: Shell, study: str) -> None:
    for snippet in SHOWN[page]:
        shown, printed = carried_out(snippet, shell, study)
        where = f"{page.name} line {snippet.line}: {snippet.command}"
        if shown:
            assert matches(shown, printed), "\n".join([where, "shown:", *shown, "printed:", *printed])


def test_make_targets_that_the_pages_name_are_there_and_run_is_the_program() -> None:
    for page, found in SHOWN.items():
        for snippet in found:
            if snippet.command.startswith("make ") and snippet.command != BEGINNING:
                target = snippet.command.split()[1]
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"{page.name}: make {target}"
    assert re.search(r"^run: venv .*\n\t\.venv/bin/churnbench run \$\(ARGS\)$", MAKEFILE, re.MULTILINE)


def test_the_readme_shows_what_the_study_prints() -> None:
    shown = [line for snippet in SHOWN[ROOT / "README.md"] if snippet.command == BEGINNING for line in snippet.shown]
    assert [line for line in shown if line.startswith("28 days  off")]


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        path, _, anchor = target.partition("#")
        assert (ROOT / path).is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        (["a", "...", "b"], ["a", "x", "y", "b"], True),
        (["a", "...", "b"], ["a", "b"], True),
        (["a", "..."], ["b"], False),
        (["a ... c"], ["a b c  "], True),
        (["a ... c"], ["a b d"], False),
        (["a"], ["a", "b"], False),
    ],
)
def test_dots_stand_for_what_differs_each_time(shown: list[str], printed: list[str], fits: bool) -> None:
    assert matches(shown, printed) is fits
