# shellcheck shell=bash
# The environment that tools/test, tools/demo and .ci/run work in; each of them sources this file.
#
# Leaves behind: $root (the repository), $venv and $python (its own environment, .venv, kept while the lock is the
# same), and TURNLOG_CORE=native or pure, exported, so that the core that was promised is the one that runs.
# TURNLOG_CORE=pure asks for the pure core; TURNLOG_CORE=native makes a missing cargo an error.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
python=$venv/bin/python
# another checkout on the path, or an outer environment, would be tested instead of this one
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV

fail() {
    printf 'error: %s\n' "$@" >&2
    exit 1
}

find_python() {
    local name
    for name in python3 python3.11 python3.12 python3.13 python3.14 python; do
        if "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    fail "no Python 3.11 or newer with the venv module on PATH; install one (Debian: python3 and python3-venv)"
}

# Makes .venv from the lock, with this checkout installed in editable form: the sessionctl command and the version.
prepare_packages() {
    local wanted interpreter
    wanted="$root $(cat "$root/requirements-dev.lock" "$root/pyproject.toml" | cksum)"
    if [ "$(cat "$venv/turnlog-stamp" 2>/dev/null)" = "$wanted" ] && "$python" -c '' 2>/dev/null; then
        return
    fi
    interpreter=$(find_python)
    printf 'setting up .venv with %s\n' "$("$interpreter" --version)" >&2
    "$interpreter" -m venv --clear "$venv"
    "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$root/requirements-dev.lock"
    TURNLOG_PURE=1 "$python" -m pip install --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --editable "$root"
    printf '%s\n' "$wanted" >"$venv/turnlog-stamp"
}

# Builds the native core in release mode; cargo does nothing when nothing changed.
build_native() {
    local log=$venv/native-build.log
    # one built for another interpreter or checkout would be found before the one built now
    rm -f "$root"/python/turnlog/_native*.so
    printf 'building the native core (the first time takes a minute)\n' >&2
    if ! (cd "$root" && VIRTUAL_ENV=$venv "$venv/bin/maturin" develop --release --skip-install) >"$log" 2>&1; then
        cat "$log" >&2
        fail "the native core did not build; TURNLOG_CORE=pure does without it"
    fi
    TURNLOG_CORE=native "$python" -c 'import turnlog._core' ||
        fail "the native core was built but does not load"
}

say_pure() {
    cat >&2 <<BLOCK
+------------------------------------------------------------------------------
| PURE CORE: turnlog runs on its Python core, $1.
| Every byte on disk is the same; appends and scans are slower.
| For the native core: install Rust 1.85 or newer (cargo on PATH) and run again.
+------------------------------------------------------------------------------
BLOCK
}

prepare_core() {
    case ${TURNLOG_CORE-} in
    pure) say_pure "since TURNLOG_CORE=pure is set" ;;
    native | "")
        if cargo --version >/dev/null 2>&1; then
            build_native
            TURNLOG_CORE=native
        elif [ "${TURNLOG_CORE-}" = native ]; then
            fail "TURNLOG_CORE=native is set, but there is no working cargo on PATH"
        else
            say_pure "since there is no working cargo on PATH"
            TURNLOG_CORE=pure
        fi
        ;;
    *) fail "TURNLOG_CORE is '$TURNLOG_CORE'; it can be native or pure" ;;
    esac
    export TURNLOG_CORE
}

prepare_packages
prepare_core
