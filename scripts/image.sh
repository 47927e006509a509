#!/usr/bin/env bash
# image.sh controller|node NAME:TAG [TAR]: builds a static program and an image that contains it. It pulls no images,
# except for busybox beside rollcall-node if no static busybox is installed. For tests: PROGRAM=file replaces the
# program in an image of the controller that exists already, and adds the libraries that it needs; IMAGE_PROFILE=dev
# builds rollcall-node quickly.
set -euo pipefail
cd "$(dirname "$0")/.."
which=${1:?usage: image.sh controller|node NAME:TAG [TAR]}
image=${2:?usage: image.sh controller|node NAME:TAG [TAR]}
tar=${3:-}
# Tools in the image of rollcall-node, for the readiness probe and for debugging. A static busybox is a single file.
BUSYBOX=${BUSYBOX:-/bin/busybox}
BUSYBOX_IMAGE=${BUSYBOX_IMAGE:-docker.io/library/busybox:1.37-musl}

# The docker client is often installed without a daemon; `info` needs the daemon.
choose_engine() {
    local engine
    for engine in docker podman buildah; do
        if command -v "$engine" >/dev/null && timeout 20 "$engine" info >/dev/null 2>&1; then
            echo "$engine"
            return
        fi
    done
    # As root in a container, the overlay driver may be forbidden; vfs always works.
    if command -v buildah >/dev/null && timeout 20 buildah --storage-driver vfs info >/dev/null 2>&1; then
        echo "buildah-vfs"
        return
    fi
    echo "no working docker, podman or buildah found; start a daemon, or install buildah, which needs none: apt-get install buildah" >&2
    return 1
}

# Collects the content of the image below target/image.
stage() {
    local root=target/image/$which applet library
    rm -rf "$root"
    case $which in
        controller)
            build=(-f Dockerfile)
            if [ -z "${PROGRAM:-}" ]; then
                scripts/static.sh rollcall-cli rollcall release "$root/rollcall"
                return
            fi
            install -D -m 0755 "$PROGRAM" "$root/rollcall"
            for library in $(ldd "$PROGRAM" | grep -o '/[^ ]*'); do
                install -D -m 0755 "$library" "$root$library"
            done
            ;;
        node)
            mkdir -p "$root/bin" "$root/etc" "$root/tmp"
            scripts/static.sh rollcall-node rollcall-node "${IMAGE_PROFILE:-small}" "$root/bin/rollcall-node"
            build=(-f Dockerfile.node)
            if [ -x "$BUSYBOX" ] && ! ldd "$BUSYBOX" 2>&1 | grep -q '=>'; then
                install -m 0755 "$BUSYBOX" "$root/bin/busybox"
                for applet in $("$BUSYBOX" --list); do
                    [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
                done
            else
                echo "no static busybox at $BUSYBOX; taking that of $BUSYBOX_IMAGE" >&2
                build+=(--build-arg "BASE=$BUSYBOX_IMAGE")
            fi
            ;;
        *)
            echo "image.sh: $which is not known; expected controller or node" >&2
            exit 1
            ;;
    esac
}

engine=${ENGINE:-$(choose_engine)}
# Only one build runs at a time, because all builds use the same folder.
mkdir -p target/image
if command -v flock >/dev/null; then
    exec 9>target/image/lock
    flock 9
fi
stage
echo "building $image with $engine" >&2
case $engine in
    docker | podman)
        "$engine" build "${build[@]}" -t "$image" .
        [ -z "$tar" ] || { rm -f "$tar"; "$engine" save -o "$tar" "$image"; }
        ;;
    buildah | buildah-vfs)
        buildah=(buildah)
        [ "$engine" = buildah ] || buildah+=(--storage-driver vfs)
        "${buildah[@]}" build --isolation chroot --format docker "${build[@]}" -t "$image" .
        [ -z "$tar" ] || { rm -f "$tar"; "${buildah[@]}" push "$image" "docker-archive:$tar:$image"; }
        ;;
    *)
        echo "ENGINE=$engine is not known; docker, podman or buildah" >&2
        exit 1
        ;;
esac
echo "$image${tar:+, exported to $tar}"
