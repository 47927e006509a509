#!/usr/bin/env bash
# Removes Rollcall so that no pod stays behind its gate: the sequences first, while the controller is there to release
# what they hold (deletionPolicy: Release), then the controller, then the CRD.
set -euo pipefail
cd "$(dirname "$0")/.."
KUBECTL=${KUBECTL:-kubectl}
KEEP_CRD=${KEEP_CRD:-}
NAMESPACE=pod-sequence-system
# The controller releases some hundred pods a second; this is for large clusters.
SECONDS_TO_RELEASE=${SECONDS_TO_RELEASE:-60}

notes() {
    "$KUBECTL" get configmaps -n "$NAMESPACE" -l podsequence.example.com/note=true -o name 2>/dev/null || true
}

# What is ours on nodes, as `labels node key`: the controller has taken it off, if it ran. The label of nodes that it has never
# seen is there in any case.
left_on_nodes() {
    local of
    for of in labels annotations; do
        "$KUBECTL" get nodes -o go-template='{{range .items}}{{$node := .metadata.name}}{{range $key, $value := .metadata.'$of'}}'$of' {{$node}} {{$key}}{{"\n"}}{{end}}{{end}}'
    done
    "$KUBECTL" get nodes -o go-template='{{range .items}}{{$node := .metadata.name}}{{range .spec.taints}}taints {{$node}} {{.key}}{{"\n"}}{{end}}{{end}}'
}

clean_nodes() {
    local of node key
    local ours=' (podsequence\.example\.com/|(startup|ignore)-taint\.cluster-autoscaler\.kubernetes\.io/.*-blocked$)'
    left_on_nodes | { grep -E "$ours" || true; } |
        while read -r of node key; do
            case $of in
            labels) "$KUBECTL" label node "$node" "$key-" ;;
            annotations) "$KUBECTL" annotate node "$node" "$key-" ;;
            taints) "$KUBECTL" taint node "$node" "$key-" ;;
            esac
        done
}

if [ -z "$KEEP_CRD" ] && "$KUBECTL" get crd podsequences.scheduling.example.com >/dev/null 2>&1; then
    "$KUBECTL" delete podsequences --all --all-namespaces
    # Each sequence has a note until the pods it held are released and nothing of it is left on nodes.
    deadline=$((SECONDS + SECONDS_TO_RELEASE))
    while [ -n "$(notes)" ]; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "The controller has not released what the deleted sequences held; does it run?" >&2
            echo "Pods that are still held: kubectl get pods -A | grep SchedulingGated" >&2
            echo "Release one by hand:      rollcall release pod/NAME -n NAMESPACE" >&2
            break
        fi
        sleep 1
    done
fi
# Before the controller: an API server that calls nobody waits for nobody.
"$KUBECTL" delete --ignore-not-found -f config/webhook/webhook.yaml
# Clusters before 1.36 do not know these kinds.
"$KUBECTL" delete --ignore-not-found -f config/admission 2>/dev/null || true
# Lite or Full: what one has and the other has not is not found.
"$KUBECTL" delete --ignore-not-found -f config/rbac/rbac.yaml -f config/rbac/rbac-lite.yaml
if [ -z "$KEEP_CRD" ]; then
    "$KUBECTL" delete --ignore-not-found -f config/crd/podsequence-crd.yaml
    clean_nodes
fi
