#!/usr/bin/env bash
# Removes Rollcall such that no pod stays gated. The order is:
# 1. the webhook that pods with a launch order need;
# 2. the sequences, while the controller runs and releases their pods (deletionPolicy: Release);
# 3. the controller;
# 4. the CRDs, whose removal also deletes Orders, tickets and the priority classes of guardians;
# 5. the guardians, and the gates that no controller will remove any more.
set -euo pipefail
cd "$(dirname "$0")/.."
KUBECTL=${KUBECTL:-kubectl}
KEEP_CRD=${KEEP_CRD:-}
NAMESPACE=pod-sequence-system
# The controller releases some hundred pods per second; this timeout is for large clusters.
SECONDS_TO_RELEASE=${SECONDS_TO_RELEASE:-60}

notes() {
    "$KUBECTL" get configmaps -n "$NAMESPACE" -l podsequence.example.com/note=true -o name 2>/dev/null || true
}

# Prints leftovers on nodes as `labels node key`. A running controller has removed most of them, but not the label of
# nodes that it has never seen.
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

# Prints pods whose containers wait for keys that no controller will write, as `namespace pod uid configmap key`.
waiting_for_keys() {
    local container='{{range .env}}{{if or (eq .name "KRUISE_CONTAINER_LAUNCH_BARRIER") (eq .name "KRUISE_CONTAINER_BARRIER")}}{{with .valueFrom}}{{with .configMapKeyRef}}{{$pod.metadata.namespace}} {{$pod.metadata.name}} {{$pod.metadata.uid}} {{.name}} {{.key}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}'
    local completed='{{$completed := ""}}{{with .metadata.annotations}}{{with index . "apps.kruise.io/container-launch-priority-completed"}}{{$completed = .}}{{end}}{{end}}'
    "$KUBECTL" get pods --all-namespaces -o go-template="{{range .items}}{{\$pod := .}}$completed{{if ne \$completed \"true\"}}{{range .spec.containers}}$container{{end}}{{end}}{{end}}"
}

# Lets all containers of a pod start at once, because no controller orders them any more.
open_all_ranks() {
    local namespace=$1 pod=$2 uid=$3 map=$4 data=$5
    local gate='{"spec":{"schedulingGates":[{"$patch":"delete","name":"podsequence.example.com/launch-gate"}]}}'
    [ "$map" = "$pod-barrier" ] || return 0
    # The ConfigMap must belong to this pod.
    local owned="{\"op\":\"test\",\"path\":\"/metadata/ownerReferences/0/uid\",\"value\":\"$uid\"}"
    local all="{\"op\":\"add\",\"path\":\"/data\",\"value\":{$data}}"
    if ! "$KUBECTL" patch configmap "$map" -n "$namespace" --type=json -p "[$owned,$all]" 2>/dev/null; then
        "$KUBECTL" create -f - <<END
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$map", "namespace": "$namespace",
 "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "$pod", "uid": "$uid"}]}, "data": {$data}}
END
    fi
    "$KUBECTL" patch pod "$pod" -n "$namespace" -p "$gate"
    "$KUBECTL" annotate pod "$pod" -n "$namespace" --overwrite apps.kruise.io/container-launch-priority-completed=true
}

give_up_order() {
    local namespace pod uid map data
    waiting_for_keys | awk '{
        pod = $1 " " $2 " " $3 " " $4
        if (!((pod, $5) in known)) data[pod] = data[pod] (data[pod] == "" ? "" : ",") "\"" $5 "\":\"true\""
        known[pod, $5] = 1
    } END { for (pod in data) print pod, data[pod] }' |
        while read -r namespace pod uid map data; do
            # The pod may have been deleted.
            open_all_ranks "$namespace" "$pod" "$uid" "$map" "$data" || true
        done
}

# Prints pods that wait for a ticket that no controller will hand over, as `namespace pod`.
waiting_for_tickets() {
    "$KUBECTL" get pods --all-namespaces -o go-template='{{range .items}}{{$pod := .metadata}}{{range .spec.schedulingGates}}{{if eq .name "korder.dev/ticket-gate"}}{{$pod.namespace}} {{$pod.name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# A guardian that its Node also owns (--guardian-node-owner) remains when its ticket is deleted.
delete_guardians() {
    "$KUBECTL" delete pods --all-namespaces -l korder.dev/guardian=true --ignore-not-found
}

give_up_tickets() {
    local namespace pod
    local gate='{"spec":{"schedulingGates":[{"$patch":"delete","name":"korder.dev/ticket-gate"}]}}'
    waiting_for_tickets | while read -r namespace pod; do
        # The pod may have been deleted.
        "$KUBECTL" patch pod "$pod" -n "$namespace" -p "$gate" || true
    done
}

"$KUBECTL" delete --ignore-not-found mutatingwebhookconfiguration podsequence-launch-webhook
if [ -z "$KEEP_CRD" ] && "$KUBECTL" get crd podsequences.scheduling.example.com >/dev/null 2>&1; then
    "$KUBECTL" delete podsequences --all --all-namespaces
    # Each sequence has a note until its pods are released and its leftovers on nodes are removed.
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
# The webhook configurations go before the controller: an API server without them does not wait for the webhook.
"$KUBECTL" delete --ignore-not-found -f config/webhook/webhook.yaml -f config/webhook/launch.yaml
# Clusters before 1.36 do not know these kinds.
"$KUBECTL" delete --ignore-not-found -f config/admission 2>/dev/null || true
# Lite and Full mode install different objects, so missing ones are ignored.
"$KUBECTL" delete --ignore-not-found -f config/rbac/rbac.yaml -f config/rbac/rbac-lite.yaml
if [ -z "$KEEP_CRD" ]; then
    "$KUBECTL" delete --ignore-not-found -f config/crd
    give_up_order
    delete_guardians
    give_up_tickets
    clean_nodes
fi
