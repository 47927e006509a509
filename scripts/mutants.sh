#!/usr/bin/env bash
# Changes the core in small ways, one at a time, and runs its own tests on each: what no test notices is listed as missed.
# With arguments, they go to cargo-mutants: `--file evaluate.rs`, `--re of_owner`, `--shard 0/4`.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}

if ! "$CARGO" mutants --version >/dev/null 2>&1; then
    echo "make mutants needs cargo-mutants: cargo install --locked cargo-mutants" >&2
    exit 1
fi

# Each mutant is compiled and tested for itself, hundreds of them: fewer random worlds.
export PROPTEST_CASES=${PROPTEST_CASES:-50}
exec "$CARGO" mutants --package rollcall-core --test-package rollcall-core --profile mutants --jobs "${JOBS:-2}" --timeout 120 \
    --output target "$@" -- --locked
