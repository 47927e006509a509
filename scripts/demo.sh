#!/usr/bin/env bash
# The podgroups example on a throw-away Kubernetes: real API server, real scheduler, the real controller. kwok plays the
# kubelets, so no image is pulled and nothing runs; annotations tell it when each pod becomes ready. Whatever happens,
# all of it is gone at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
SAMPLE=config/samples/podgroups-example.yaml
START_LIMIT=120
RUN_LIMIT=2m

say() { printf '%s\n' "$*" >&2; }

dir=$(mktemp -d)
testbed_pid=
controller_pid=
stop() {
    local pid=$1
    [ -n "$pid" ] || return 0
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}
cleanup() {
    local code=$?
    trap - EXIT INT TERM
    if [ "$code" -ne 0 ] && [ -s "$dir/controller.log" ]; then
        say "The controller's last words:"
        tail -n 20 "$dir/controller.log" >&2
    fi
    stop "$controller_pid"
    stop "$testbed_pid"
    rm -rf "$dir"
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "Building (the first time this takes a while, and Kubernetes is built as well) …"
"$CARGO" build --locked -q -p rollcall-cli -p rollcall-testbed --bins
bin=${CARGO_TARGET_DIR:-target}/debug
programs=$("$bin/rollcall-testbed" bin-dir)

# The pipe on its standard input closes when this script is gone, whatever ended it; then the cluster ends, too.
"$bin/rollcall-testbed" up --nodes 3 --kubeconfig "$dir/kubeconfig" \
    < <(tail -f /dev/null --pid=$$) >"$dir/testbed.out" 2>"$dir/testbed.log" &
testbed_pid=$!
deadline=$((SECONDS + START_LIMIT))
# It prints `export KUBECONFIG=…` when pods can be scheduled.
until grep -q KUBECONFIG "$dir/testbed.out"; do
    if ! kill -0 "$testbed_pid" 2>/dev/null || [ "$SECONDS" -gt "$deadline" ]; then
        say "The cluster did not start:"
        tail -n 20 "$dir/testbed.log" >&2
        exit 1
    fi
    sleep 0.2
done
export KUBECONFIG=$dir/kubeconfig
kubectl() { "$programs/kubectl" --cache-dir "$dir/kubectl-cache" "$@"; }

say "A Kubernetes of 3 nodes is up. Installing the CRD, starting the controller …"
kubectl apply -f config/crd/podsequence-crd.yaml >/dev/null
kubectl wait --for=condition=Established --timeout=30s crd/podsequences.scheduling.example.com >/dev/null
kubectl create namespace pod-sequence-system >/dev/null
# It ends with this script as well, where that can be arranged.
with_us=()
if command -v setpriv >/dev/null; then with_us=(setpriv --pdeathsig TERM); fi
"${with_us[@]}" "$bin/rollcall" controller --mode lite --metrics-bind-address 127.0.0.1:0 --health-probe-bind-address 127.0.0.1:0 \
    >"$dir/controller.log" 2>&1 &
controller_pid=$!

# The pods first (no sequence claims them yet, so they are held), each with the time it takes to become ready.
awk '/^---$/ { pods = 1 } pods' "$SAMPLE" | kubectl apply -f - >/dev/null
for pod in pod-1=3s pod-2=5s pod-3=2s pod-4=4s pod-5=2s; do
    kubectl annotate pod "${pod%=*}" "testbed.rollcall.dev/ready-after=${pod#*=}" >/dev/null
done
say
say "Five pods, all held by their scheduling gate:"
kubectl get pods >&2
say
say "Now the sequence, in $SAMPLE:"
# Only the sequence: a pod that was released cannot get its gate back, so applying it again would be refused.
awk '/^---$/ { exit } { print }' "$SAMPLE" | kubectl apply -f - >/dev/null
"$bin/rollcall" status podgroups-example -w --timeout "$RUN_LIMIT"
say
kubectl get podseq
kubectl get pods
say
say "Next:"
say "  make cluster                    a Kubernetes like this one, to play with"
say "  docs/guide/first-sequence.md    the same on your own cluster"
