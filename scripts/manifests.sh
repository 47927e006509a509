#!/usr/bin/env bash
# Generates what is generated. Tests fail when the files in the repository differ from this.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$CARGO" run --locked -q -p rollcall-api --example generate-crd config/crd
"$CARGO" run --locked -q -p rollcall-cli -- reference --dir docs/reference
# What holds the controller to what is its own is part of every install.
for file in config/rbac/rbac.yaml config/rbac/rbac-lite.yaml; do
    { sed '/^# The rest is config\/rbac\/limits.yaml/q' "$file" && cat config/rbac/limits.yaml; } >"$new"
    install -m 0644 "$new" "$file"
done
