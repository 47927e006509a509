#!/usr/bin/env bash
# All checks, on a machine that has Rust, Go and a C compiler. What else is needed, it fetches or builds itself: the
# first run builds Kubernetes (about 6 minutes on two cores) and keeps it outside of this clone.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
# Tests of one binary share a cluster and mostly wait; four at a time keep two cores busy without starving it.
TEST_THREADS=${TEST_THREADS:-4}

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

log=$(mktemp)
trap 'rm -f "$log"' EXIT
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

# shellcheck disable=SC2317 # called through step
tests() {
    # One binary after the other; all of them, even after a failure.
    "$CARGO" test --locked --workspace --no-fail-fast -- --test-threads="$TEST_THREADS" 2>&1 | tee "$log"
}

run() {
    step "format" "$CARGO" fmt --all --check || true
    step "clippy" "$CARGO" clippy --locked --workspace --all-targets -- -D warnings || true
    # Tests start our programs as other processes, so all of them must be there first.
    step "build" "$CARGO" build --locked --workspace --bins || return
    step "kubernetes (built once)" "$CARGO" run --locked -q -p rollcall-testbed -- build || return
    step "tests" tests || true
}

run || true
report
exit "$failed"
