#!/usr/bin/env bash
# image.sh NAME:TAG [TAR]: a static program, and an image that holds nothing else. Nothing is pulled.
# IMAGE_PROFILE=dev builds it quickly, for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
image=${1:?usage: image.sh NAME:TAG [TAR]}
tar=${2:-}
staged=target/image/rollcall

arch=$(uname -m)
case $arch in
    x86_64 | aarch64) ;;
    arm64) arch=aarch64 ;;
    *) echo "no image for $arch: only x86_64 and aarch64 are known" >&2; exit 1 ;;
esac

# docker's client is often there without its daemon; `info` asks the daemon.
choose_engine() {
    local engine
    for engine in docker podman buildah; do
        if command -v "$engine" >/dev/null && timeout 20 "$engine" info >/dev/null 2>&1; then
            echo "$engine"
            return
        fi
    done
    # As root in a container the overlay driver may be refused; vfs always works.
    if command -v buildah >/dev/null && timeout 20 buildah --storage-driver vfs info >/dev/null 2>&1; then
        echo "buildah-vfs"
        return
    fi
    echo "no working docker, podman or buildah here; start a daemon, or install one that needs none: apt-get install buildah" >&2
    return 1
}

# musl where its target and its C compiler are installed, else glibc linked statically.
build_static() {
    local target=$arch-unknown-linux-musl flags=${RUSTFLAGS:-}
    if ! { rustup target list --installed 2>/dev/null | grep -qx "$target" &&
        { command -v musl-gcc || command -v "$arch-linux-musl-gcc"; } >/dev/null; }; then
        target=$arch-unknown-linux-gnu
    fi
    echo "building rollcall for $target" >&2
    local profile=${IMAGE_PROFILE:-release} folder
    folder=$([ "$profile" = dev ] && echo debug || echo "$profile")
    RUSTFLAGS="$flags -C target-feature=+crt-static" \
        "$CARGO" build --locked --profile "$profile" -p rollcall-cli --target "$target"
    install -D -m 0755 "${CARGO_TARGET_DIR:-target}/$target/$folder/rollcall" "$staged"
    if command -v ldd >/dev/null && ldd "$staged" 2>&1 | grep -q '=>'; then
        echo "$staged is not static, so it would not start in an empty image" >&2
        return 1
    fi
}

engine=${ENGINE:-$(choose_engine)}
build_static
echo "building $image with $engine" >&2
case $engine in
    docker | podman)
        "$engine" build -t "$image" .
        [ -z "$tar" ] || { rm -f "$tar"; "$engine" save -o "$tar" "$image"; }
        ;;
    buildah | buildah-vfs)
        buildah=(buildah)
        [ "$engine" = buildah ] || buildah+=(--storage-driver vfs)
        "${buildah[@]}" build --isolation chroot --format docker -t "$image" .
        [ -z "$tar" ] || { rm -f "$tar"; "${buildah[@]}" push "$image" "docker-archive:$tar:$image"; }
        ;;
    *)
        echo "ENGINE=$engine is not known; docker, podman or buildah" >&2
        exit 1
        ;;
esac
echo "$image${tar:+, exported to $tar}"
