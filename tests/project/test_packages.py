import subprocess
import sys
import tomllib
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
PACKAGES = [ROOT / path for path in WHEEL]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_source_root_holds_one_typed_package_and_a_readme(package: Path) -> None:
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()
    root = package if package.parent == ROOT else package.parent
    assert (root / "README.md").is_file()
    if root != package:
        holds = {path.name for path in root.iterdir() if not path.name.startswith((".", "__"))}
        assert holds == {"README.md", package.name}


def test_every_package_is_shipped() -> None:
    roots = [ROOT, *(path for path in ROOT.iterdir() if path.is_dir()), *(ROOT / "domains").iterdir()]
    found = {path.parent for root in roots for path in root.glob("churnbench*/__init__.py")}
    assert found == set(PACKAGES)


def test_all_packages_import_from_any_folder(tmp_path: Path) -> None:
    names = [path.name for path in PACKAGES]
    done = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(names)}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_domain_joins_by_entry_point() -> None:
    assert [point.value for point in entry_points(group="churnbench.domains", name="sam")] == ["churnbench_sam:DOMAIN"]
    assert distribution("churnbench").version == "0.1.0"
