#!/usr/bin/env bash
# Brings .venv up to the lock: tools/venv.sh NAME... with the names of lock files in requirements/ (base, dev, servers, embeddings, agents).
# Does nothing where .venv is up to date. Uses uv where it is installed, else venv and pip. PYTHON=... names the interpreter to use.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$PWD/.venv
python=$venv/bin/python
stamps=$venv/locked

fail() {
    printf 'churnbench: %s\n' "$*" >&2
    exit 2
}

supported() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        supported "$PYTHON" || fail "PYTHON=$PYTHON is not a Python of version 3.11 or later"
        printf '%s\n' "$PYTHON"
        return
    fi
    local name
    for name in python3 python python3.13 python3.12 python3.11 python3.14; do
        if supported "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    uv python find --no-project '>=3.11' 2>/dev/null ||
        fail "no Python of version 3.11 or later on the PATH; install one, or name one: make run PYTHON=/path/to/python3.11"
}

# The digest of what .venv is made from; the folder is in it because an environment cannot be moved.
digest() {
    { printf '%s\n' "$venv"; cat "$@"; } | cksum
}

install() {
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$python" "$@"
    else
        "$python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"
    fi
}

make_venv() {
    local interpreter
    interpreter=$(find_python)
    printf 'churnbench: making .venv with %s\n' "$("$interpreter" --version 2>&1)" >&2
    rm -rf "$venv"
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --no-project --python "$("$interpreter" -c 'import sys; print(sys.executable)')" "$venv"
    else
        "$interpreter" -m venv "$venv" >/dev/null 2>&1 ||
            { rm -rf "$venv"; fail "$interpreter cannot make an environment (Debian and Ubuntu: install python3-venv), and uv is not installed"; }
    fi
    mkdir -p "$stamps"
}

[ $# -gt 0 ] || fail "name the locks to install: $(cd requirements && echo *.txt)"
for name in "$@"; do
    [ -f "requirements/$name.txt" ] || fail "there is no lock '$name'; valid: $(cd requirements && echo *.txt)"
done

if [ ! -d "$stamps" ] || ! supported "$python"; then
    make_venv
fi

for name in "$@"; do
    want=$(digest "requirements/$name.txt")
    if [ "$(cat "$stamps/$name" 2>/dev/null)" != "$want" ]; then
        printf 'churnbench: installing requirements/%s.txt\n' "$name" >&2
        rm -f "$stamps/$name"
        install --require-hashes -r "requirements/$name.txt"
        # Libraries start three times as fast compiled; their own tests are left out.
        "$python" -m compileall -q -j 0 -x '[/\\]tests?[/\\]' "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
            >/dev/null 2>&1 || true
        printf '%s\n' "$want" >"$stamps/$name"
        digest requirements/base.txt >"$stamps/base" # every lock holds the base
    fi
done

# The build backend is locked too, so the project is built without an environment of its own.
want=$(digest pyproject.toml requirements/build.txt)
if [ "$(cat "$stamps/project" 2>/dev/null)" != "$want" ]; then
    rm -f "$stamps/project"
    install --require-hashes -r requirements/build.txt
    install --no-deps --no-build-isolation --editable .
    printf '%s\n' "$want" >"$stamps/project"
fi
