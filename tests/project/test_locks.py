import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = sorted(path.stem for path in (ROOT / "requirements").glob("*.txt"))


def read_lock(name: str) -> list[tuple[Requirement, list[str]]]:
    text = re.sub(r"^#.*$", "", (ROOT / "requirements" / f"{name}.txt").read_text(), flags=re.MULTILINE)
    entries = []
    for line in filter(None, re.sub(r"\\\n", " ", text).splitlines()):
        pin, *hashes = line.split(" --hash=")
        entries.append((Requirement(pin.strip()), [digest.strip() for digest in hashes]))
    return entries


def pins(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for requirement, _ in read_lock(name):
        found.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    return found


def test_base_build_and_every_extra_have_a_lock() -> None:
    assert set(LOCKS) == {"base", "build", *EXTRAS}


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_is_pinned_and_hashed_and_names_no_place(name: str) -> None:
    for requirement, hashes in read_lock(name):
        assert requirement.url is None
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes), requirement


@pytest.mark.parametrize("name", ["base", *EXTRAS])
def test_a_lock_holds_what_the_project_asks_for(name: str) -> None:
    locked = pins(name)
    for text in [*PROJECT["dependencies"], *EXTRAS.get(name, [])]:
        wanted = Requirement(text)
        versions = locked.get(canonicalize_name(wanted.name))
        assert versions, f"{wanted} is not in requirements/{name}.txt; run make lock"
        assert all(wanted.specifier.contains(version.removeprefix("==")) for version in versions), (
            f"{wanted}; run make lock"
        )


def test_locks_agree_so_that_they_install_on_top_of_each_other() -> None:
    base = pins("base")
    merged: dict[str, set[str]] = {}
    for name in LOCKS:
        locked = pins(name)
        if name != "build":
            assert base.items() <= locked.items(), name
        for package, versions in locked.items():
            assert merged.setdefault(package, versions) == versions, package


def test_the_base_pulls_no_torch() -> None:
    assert not {name for name in pins("base") if "torch" in name or name.startswith(("nvidia", "cuda", "triton"))}
