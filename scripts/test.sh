#!/usr/bin/env bash
# All checks, on a machine that has Rust, Go and a C compiler. What else is needed, it fetches or builds itself: the
# first run builds Kubernetes (about 6 minutes on two cores) and keeps it outside of this clone.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
# Tests of one binary share a cluster and mostly wait; four at a time keep two cores busy without starving it.
TEST_THREADS=${TEST_THREADS:-4}
TEST_BINARIES=${TEST_BINARIES:-3}

need() {
    command -v "$1" >/dev/null || { echo "make test needs $1: $2" >&2; exit 1; }
}

need "$CARGO" "install Rust with rustup"
need go "install Go"
need cc "install a C compiler (Debian: apt-get install gcc libc6-dev)"
wanted=$(awk '$1 == "go" { print $2 }' testbed/go/kubernetes/go.mod)
have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
if [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]; then
    echo "make test needs Go $wanted or later, and this is Go $have" >&2
    exit 1
fi

# In CI every clone is new. What is compiled of other people's code is kept for the next one; our own is compiled anew,
# because a clone's files can be older than what another clone left there.
if [ "${CI:-}" = true ] && [ -z "${CARGO_TARGET_DIR:-}" ]; then
    CARGO_TARGET_DIR=${ROLLCALL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall}/target
    export CARGO_TARGET_DIR
    # What rustc keeps for the next edit of a file is 10 GiB of these crates, and no CI run edits one.
    export CARGO_INCREMENTAL=0
    git ls-files -z | xargs -0 touch
fi

dir=$(mktemp -d)
log=$dir/log
: >"$log"
trap 'rm -rf "$dir"' EXIT
export dir log TEST_THREADS
summary=()
failed=0
started=$SECONDS

# step TITLE COMMAND…: runs it, shows it, remembers how it went.
step() {
    local title=$1 begun=$SECONDS outcome=ok
    shift
    printf '\n==> %s\n' "$title"
    "$@" || { outcome=FAILED; failed=1; }
    summary+=("$(printf '%-36s %-6s %4ds' "$title" "$outcome" $((SECONDS - begun)))")
    [ "$outcome" = ok ]
}

report() {
    printf '\n'
    printf '%s\n' "${summary[@]}"
    grep -E '^test .* (FAILED|failed)$' "$log" | sort -u || true
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8; binaries++ }
         END { if (binaries) printf "%d passed, %d failed, %d ignored in %d test binaries\n", passed, failed, ignored, binaries }' "$log"
    printf 'total %ds\n' $((SECONDS - started))
}

# Test binaries mostly wait for clusters, so several of them run at the same time. The longest ones go first. Those that
# need the machine's one real node wait for each other; conformance is done with it before the next one is there.
LONGEST='conformance nodes_scale faults restart real_node idle crash admission sequence nodes agent launch kwok sequence_alone leaders'

# Ten thousand simulations keep all cores busy, so they run alone, and later.
CHAOS='/chaos-[0-9a-f]*$'

# one MANIFEST EXECUTABLE: runs a test binary where its package is, as `cargo test` does.
one() {
    local name=${2##*/} code=0
    name=${name%-*}
    (cd "${1%/*}" && exec "$2" --test-threads="$TEST_THREADS") >"$dir/$name.$$.out" 2>&1 || code=$?
    # One write, so that the outputs do not mix.
    printf '\n     Running %s (%s)\n%s\n' "$name" "$([ "$code" = 0 ] && echo ok || echo "FAILED, exit $code")" \
        "$(cat "$dir/$name.$$.out")" | tee -a "$log"
    return "$code"
}
export -f one

# shellcheck disable=SC2317 # called through step
tests() {
    "$CARGO" test --locked --workspace --no-run --message-format=json-render-diagnostics >"$dir/built.json" || return
    # Of the programs only their unit tests: those that were compiled in the test profile.
    grep -E '"overflow_checks":(true|false),"test":true' "$dir/built.json" | grep '"executable":"' |
        sed -E 's/.*"manifest_path":"([^"]+)".*"executable":"([^"]+)".*/\1 \2/' | sort -u >"$dir/all"
    {
        for name in $LONGEST; do grep "/$name-[0-9a-f]*$" "$dir/all" || true; done
        grep -v "$CHAOS" "$dir/all"
    } | awk '!seen[$0]++' | xargs -P "$TEST_BINARIES" -L 1 bash -c 'one "$@"' one
}

# The only build that has bugs on purpose, and the only one that is worth compiling for speed. Of the whole workspace, so that
# no other code has to be compiled for it.
# shellcheck disable=SC2317 # called through step
chaos() {
    local crate fast=()
    for crate in core api controller sim; do
        fast+=(--config "profile.dev.package.rollcall-$crate.opt-level=3")
        fast+=(--config "profile.dev.package.rollcall-$crate.codegen-units=1")
    done
    "$CARGO" test --locked --workspace "${fast[@]}" --features rollcall-sim/planted --test chaos --test planted -- \
        --nocapture 2>&1 | tee -a "$log"
}

run() {
    step "format" "$CARGO" fmt --all --check || true
    step "clippy" "$CARGO" clippy --locked --workspace --all-targets -- -D warnings || true
    # Tests start our programs as other processes, so all of them must be there first. Together with the tests, and not one
    # package alone: else other people's code is compiled twice, with other features.
    step "build" "$CARGO" build --locked --workspace --bins --tests || return
    step "kubernetes (built once)" "${CARGO_TARGET_DIR:-target}/debug/rollcall-testbed" build || return
    step "tests" tests || true
    step "simulated faults, bugs on purpose" chaos || true
    step "doc tests" "$CARGO" test --locked --workspace --doc -q || true
}

run || true
report
exit "$failed"
