#!/usr/bin/env bash
# test.sh [fast]: all checks, on a machine that has Rust, Go and a C compiler. What else is needed, it fetches or builds itself:
# the first run builds Kubernetes (about 6 minutes on two cores) and keeps it outside of this clone.
# `fast` leaves out what needs a real cluster, and the fault runs.
# shellcheck disable=SC2317 # many functions are called through `step`, `beside` or `xargs`
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
# Tests of one process mostly wait for their cluster. More at a time would starve it on two cores.
TEST_THREADS=${TEST_THREADS:-3}
TEST_PROCESSES=${TEST_PROCESSES:-4}
# About what a run needs with nothing cached: build folders, the build of Kubernetes, clusters.
GIB_NEEDED=${GIB_NEEDED:-20}
# Compiled code is kept up to this size. One set of it takes half of that.
GIB_KEPT=6

cache=${ROLLCALL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall}

need() {
    command -v "$1" >/dev/null || { echo "make test needs $1: $2" >&2; exit 1; }
}

need_disk() {
    local folder free
    mkdir -p "$cache"
    for folder in . "$cache" "${TMPDIR:-/tmp}"; do
        free=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 1048576) }')
        if [ "$free" -lt "$GIB_NEEDED" ]; then
            echo "make test needs $GIB_NEEDED GiB of free disk, and $(cd "$folder" && pwd) has $free GiB (GIB_NEEDED=… for another limit)" >&2
            exit 1
        fi
    done
}

need_go() {
    local wanted have
    need go "install Go"
    wanted=$(awk '$1 == "go" { print $2 }' testbed/go/kubernetes/go.mod)
    have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
    if [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]; then
        echo "make test needs Go $wanted or later, and this is Go $have" >&2
        exit 1
    fi
}

# In CI every clone is new, so cargo would compile all of our code. The commit is checked out at a place that stays instead,
# beside its build folder: git writes only the files that differ from those of the run before, and cargo compiles only what
# depends on them. There is one such place, so the code of older commits does not pile up.
use_kept_clone() {
    local clone=$PWD kept=$cache/clone
    if [ -n "$(git status --porcelain 2>&1)" ]; then
        echo "not a clean clone; building in it" >&2
        return
    fi
    exec 8>"$cache/target.lock"
    if ! flock -n 8; then
        echo "another run uses $cache/target; building in the clone" >&2
        return
    fi
    # Without tables of lines our own code is compiled and linked faster; a panic names its line all the same.
    export CARGO_TARGET_DIR=$cache/target CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
    mkdir -p "$CARGO_TARGET_DIR"
    if [ "$(du -sm "$CARGO_TARGET_DIR" | cut -f 1)" -gt $((GIB_KEPT * 1024)) ]; then
        echo "the build folder has grown beyond $GIB_KEPT GiB; it is made anew" >&2
        find "$CARGO_TARGET_DIR" -mindepth 1 -delete
    fi
    [ -d "$kept/.git" ] || git init -q "$kept"
    git -C "$kept" fetch -q --depth 1 "file://$clone" HEAD
    git -C "$kept" checkout -q -f --detach FETCH_HEAD
    git -C "$kept" clean -q -f -d -x
    cd "$kept"
}

need "$CARGO" "install Rust with rustup"
need cc "install a C compiler (Debian: apt-get install gcc libc6-dev)"

dir=$(mktemp -d)
log=$dir/log
times=$dir/times
: >"$log"
: >"$times"
trap 'rm -rf "$dir"' EXIT
export dir log times TEST_THREADS
failed=0
started=$SECONDS

# step TITLE COMMAND…: runs it, shows what it prints, remembers how it ended and how long it took.
step() {
    local title=$1 begun=$SECONDS outcome=ok
    shift
    printf '\n==> %s\n' "$title"
    "$@" || { outcome=FAILED; failed=1; }
    printf 'step\t%s\t%s\t%d\n' "$title" "$outcome" $((SECONDS - begun)) >>"$times"
    [ "$outcome" = ok ]
}

# beside TITLE COMMAND…: a step at low priority beside the others; its output is shown when `join` waits for it.
beside() {
    local title=$1
    shift
    (
        begun=$SECONDS outcome=ok
        nice -n 19 "$@" >"$dir/beside" 2>&1 || outcome=FAILED
        printf 'step\t%s\t%s\t%d\n' "$title" "$outcome" $((SECONDS - begun)) >>"$times"
        [ "$outcome" = ok ]
    ) &
    beside=$! beside_title=$title
}

join() {
    local outcome=0
    wait "$beside" || { outcome=1; failed=1; }
    printf '\n==> %s\n' "$beside_title"
    cat "$dir/beside"
    return "$outcome"
}

# The steps, the processes and the slowest tests, with their times; what failed; and the sum of it.
report() {
    local file=${CARGO_TARGET_DIR:-target}/test-times.tsv
    printf '\nsteps, in seconds\n'
    awk -F '\t' '$1 == "step" { printf "  %-44s %-7s %5d\n", $2, $3, $4 }' "$times"
    printf 'processes, in seconds; several run at a time\n'
    awk -F '\t' '$1 == "process" { printf "  %-44s %-7s %5d\n", $2, $3, $4 }' "$times" | sort -k 3,3nr -s
    sed -nE 's/^test (.*) \.\.\. (ok|FAILED) <([0-9.]+)s>$/test\t\1\t\2\t\3/p' "$log" >>"$times"
    printf 'slowest tests, in seconds\n'
    awk -F '\t' '$1 == "test" { printf "  %-90s %7.1f\n", $2, $4 }' "$times" | sort -k 2,2nr | awk 'NR <= 10'
    cp "$times" "$file" && printf 'all times: %s\n' "$file"
    grep -E '^test .* (FAILED|failed)( <.*>)?$' "$log" | sort -u || true
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8; processes++ }
         END { if (processes) printf "%d passed, %d failed, %d ignored in %d test processes\n", passed, failed, ignored, processes }' "$log"
    printf 'disk: build folder %s, cache %s\n' "$(du -sh "${CARGO_TARGET_DIR:-target}" | cut -f 1)" "$(du -sh "$cache" | cut -f 1)"
    printf 'total %ds\n' $((SECONDS - started))
}

# Processes of tests, the longest first: a name, the test binary, and which of its tests. The fault runs get the processor
# time that the others leave. Tests of `cluster` are spread over several processes, each with clusters of its own. Tests that no
# line here names run as well: see `processes`.
SPREAD='
chaos           chaos
real            cluster      real:: kubelet::
own_controller  cluster      own_controller:: --skip own_controller::faults::
conformance     conformance
full            cluster      full:: --skip full::nodes --skip kubelet::
full-nodes      cluster      full::nodes
faults          cluster      own_controller::faults::
bare            cluster      bare::
shared          cluster      shared::
'

# process NAME MANIFEST EXECUTABLE ARGUMENT…: runs a test binary where its package is, as `cargo test` does.
process() {
    local name=$1 manifest=$2 executable=$3 code=0 begun=$SECONDS arguments=(--test-threads="$TEST_THREADS")
    shift 3
    [ "$name" != chaos ] || renice -n 19 "$BASHPID" >/dev/null
    # Another harness runs the cases of the core: it has no times.
    [ "$name" = cases ] || arguments+=(-Z unstable-options --report-time)
    (cd "${manifest%/*}" && RUSTC_BOOTSTRAP=1 exec "$executable" "${arguments[@]}" "$@") >"$dir/$name.out" 2>&1 || code=$?
    printf 'process\t%s\t%s\t%d\n' "$name" "$([ "$code" = 0 ] && echo ok || echo FAILED)" $((SECONDS - begun)) >>"$times"
    # One write, so that the outputs do not mix.
    printf '\n     Running %s (%s)\n%s\n' "$name" "$([ "$code" = 0 ] && echo ok || echo "FAILED, exit $code")" \
        "$(cat "$dir/$name.out")" | tee -a "$log"
    return "$code"
}
export -f process

# The processes, a line each, from the list of built test binaries, `MANIFEST EXECUTABLE` each.
processes() {
    local manifest executable name binary rest others=()
    declare -A place spread
    while read -r manifest executable; do
        name=${executable##*/} name=${name%-*}
        # A library and a program can have the same name.
        while [ -n "${place[$name]:-}" ]; do name=$name.; done
        place[$name]="$manifest $executable"
    done
    while read -r name binary rest; do
        [ -n "$name" ] || continue
        echo "$name ${place[$binary]}${rest:+ $rest}"
        [ "$binary" = cluster ] && others+=(--skip "${rest%% *}")
        spread[$binary]=1
    done <<<"$SPREAD"
    echo "other-clusters ${place[cluster]} ${others[*]} --skip kubelet::"
    for binary in "${!place[@]}"; do
        [ -n "${spread[$binary]:-}" ] || echo "$binary ${place[$binary]}"
    done | sort
}

# The list of test binaries that `cargo test --no-run` has built, by its messages: `MANIFEST EXECUTABLE` each.
executables() {
    grep -E '"overflow_checks":(true|false),"test":true' "$1" | grep '"executable":"' |
        sed -E 's/.*"manifest_path":"([^"]+)".*"executable":"([^"]+)".*/\1 \2/' | sort -u
}

build() {
    # Tests start our programs as other processes, so all of them must be there first. Together with the tests, and not one
    # package alone: else other people's code is compiled twice, with other features.
    "$CARGO" build --locked --workspace --bins --tests &&
        "$CARGO" test --locked --workspace --no-run --message-format=json-render-diagnostics >"$dir/built.json" &&
        executables "$dir/built.json" >"$dir/executables"
}

tests() {
    echo "half of the random fault runs: CHAOS_SEED=${CHAOS_SEED:-} (the same seeds again with the same value)"
    # A line is one process; its words are the arguments.
    # shellcheck disable=SC2016 # the inner shell expands them
    processes <"$dir/executables" | xargs -P "$TEST_PROCESSES" -d '\n' -I '{}' bash -c 'process $1' process '{}'
}

# What needs no cluster, with what the last edit has left compiled.
fast_tests() {
    local test arguments=(--lib --bins)
    for test in decisions cases cost definitions admission memory commands edges embedded scale; do arguments+=(--test "$test"); done
    "$CARGO" test --locked --workspace "${arguments[@]}" -q
}

clippy() {
    # Beside the build, and so in a folder of its own.
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/clippy "$CARGO" clippy --locked --workspace --all-targets -- -D warnings
}
export -f clippy
export CARGO

# Half of the random fault runs are others with every commit, so that over time more plans are tried.
CHAOS_SEED=${CHAOS_SEED:-$(git rev-parse --short=8 HEAD 2>/dev/null || true)}
export CHAOS_SEED

everything() {
    step "format" "$CARGO" fmt --all --check || true
    beside "clippy" bash -c clippy
    step "build" build || { join; return; }
    step "kubernetes (built once)" "${CARGO_TARGET_DIR:-target}/debug/rollcall-testbed" build || { join; return; }
    step "tests" tests || true
    join || true
}

fast() {
    step "format" "$CARGO" fmt --all --check || true
    step "clippy" "$CARGO" clippy --locked --workspace --all-targets -q -- -D warnings || true
    step "tests without a cluster" fast_tests || true
    awk -F '\t' '{ printf "%-28s %-7s %4ds\n", $2, $3, $4 }' "$times"
}

case ${1:-everything} in
    fast) fast ;;
    everything)
        need_go
        need_disk
        if [ "${CI:-}" = true ] && [ -z "${CARGO_TARGET_DIR:-}" ]; then use_kept_clone; fi
        everything || true
        report
        ;;
    *) echo "usage: test.sh [fast]" >&2; exit 1 ;;
esac
exit "$failed"
