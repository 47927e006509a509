#!/usr/bin/env bash
# Generates the generated files. Tests fail if the files in the repository differ.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$CARGO" run --locked -q -p rollcall-api --example generate-crd config/crd
"$CARGO" run --locked -q -p rollcall-cli -- reference --dir docs/reference
# Each installation contains the policies that restrict the controller.
for file in config/rbac/rbac.yaml config/rbac/rbac-lite.yaml; do
    { sed '/^# The rest is config\/rbac\/limits.yaml/q' "$file" && cat config/rbac/limits.yaml; } >"$new"
    install -m 0644 "$new" "$file"
done
