#!/usr/bin/env bash
# Makes small changes to the core, one at a time, and runs its tests on each. A change that no test detects is listed as
# missed. Arguments are passed to cargo-mutants: `--file evaluate.rs`, `--re of_owner`, `--shard 0/4`.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}

if ! "$CARGO" mutants --version >/dev/null 2>&1; then
    echo "make mutants needs cargo-mutants: cargo install --locked cargo-mutants" >&2
    exit 1
fi

# Hundreds of mutants are compiled and tested one by one, so each test run uses fewer random worlds.
export PROPTEST_CASES=${PROPTEST_CASES:-50}
exec "$CARGO" mutants --package rollcall-core --test-package rollcall-core --profile mutants --jobs "${JOBS:-2}" --timeout 120 \
    --output target "$@" -- --locked
