#!/usr/bin/env bash
# Writes requirements/*.txt from pyproject.toml: one complete lock for the base and for each extra, every package with its hashes, for any platform and
# Python >= 3.11. All are cut from one resolution, so that any of them can be installed on top of each other. Keeps the versions there are where they
# still fit; `tools/lock.sh --upgrade` takes the newest. Needs uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v uv >/dev/null 2>&1 || { echo "churnbench: the lock is made by uv, which is not installed" >&2; exit 2; }

all=$(mktemp)
trap 'rm -f "$all"' EXIT

compile() {
    uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-annotate \
        --custom-compile-command "make lock" "$@"
}

backend() {
    sed -n '/^\[build-system\]/,/^$/s/^requires = \["\(.*\)"\]$/\1/p' pyproject.toml
}

cat requirements/*.txt >"$all" 2>/dev/null || true
backend | compile --all-extras pyproject.toml - --output-file "$all" "$@" >/dev/null

backend | compile - --constraints "$all" --output-file requirements/build.txt >/dev/null
compile pyproject.toml --constraints "$all" --output-file requirements/base.txt >/dev/null
for extra in servers embeddings agents dev; do
    compile pyproject.toml --extra "$extra" --constraints "$all" --output-file "requirements/$extra.txt" >/dev/null
done
