#!/usr/bin/env bash
# static.sh PACKAGE PROGRAM PROFILE FILE: builds a static program of a package and copies it to FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
package=${1:?usage: static.sh PACKAGE PROGRAM PROFILE FILE}
program=$2
profile=$3
file=$4

arch=$(uname -m)
case $arch in
    x86_64 | aarch64) ;;
    arm64) arch=aarch64 ;;
    *) echo "no static program for $arch: only x86_64 and aarch64 are known" >&2; exit 1 ;;
esac

# Uses musl if its target and its C compiler are installed, otherwise glibc, linked statically.
target=$arch-unknown-linux-musl
if ! { rustup target list --installed 2>/dev/null | grep -qx "$target" &&
    { command -v musl-gcc || command -v "$arch-linux-musl-gcc"; } >/dev/null; }; then
    target=$arch-unknown-linux-gnu
fi
echo "building $program for $target" >&2
folder=$([ "$profile" = dev ] && echo debug || echo "$profile")
# Unset because scripts/test.sh sets RUSTC_BOOTSTRAP, which would recompile all dependencies.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
    env -u RUSTC_BOOTSTRAP "$CARGO" build --locked --profile "$profile" -p "$package" --bin "$program" --target "$target"
install -D -m 0755 "${CARGO_TARGET_DIR:-target}/$target/$folder/$program" "$file"
if command -v ldd >/dev/null && ldd "$file" 2>&1 | grep -q '=>'; then
    echo "$file is not static, so it would not start in an empty image" >&2
    exit 1
fi
