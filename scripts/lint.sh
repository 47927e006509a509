#!/usr/bin/env bash
# Checks format and lints. Uses cargo-deny and shellcheck if they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}

"$CARGO" fmt --all --check
"$CARGO" clippy --locked --workspace --all-targets -- -D warnings
if "$CARGO" deny --version >/dev/null 2>&1; then
    "$CARGO" deny --locked check
else
    echo "cargo-deny is not installed, so licences and advisories are not checked: cargo install --locked cargo-deny" >&2
fi
if command -v shellcheck >/dev/null; then
    shellcheck scripts/*.sh .ci/run
else
    echo "shellcheck is not installed, so the scripts are not checked" >&2
fi
