#!/usr/bin/env bash
# Prints a sequence of GROUPS groups, each a Deployment of PODS pods:
#
#   bench/many-pods.sh 100 100 | rollcall simulate - --nodes 100
set -euo pipefail
groups=${1:-100}
pods=${2:-100}

printf 'apiVersion: scheduling.example.com/v1alpha1\nkind: PodSequence\nmetadata: {name: many}\nspec:\n  podGroups:\n'
for ((group = 1; group <= groups; group++)); do
    printf '  - {name: tier-%d, podSelector: {matchLabels: {tier: t%d}}}\n' "$group" "$group"
done
for ((group = 1; group <= groups; group++)); do
    cat <<END
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: tier-$group}
spec:
  replicas: $pods
  selector: {matchLabels: {tier: t$group}}
  template:
    metadata: {labels: {tier: t$group}}
    spec:
      schedulingGates: [{name: podsequence.example.com/sequence-gate}]
      containers: [{name: c, image: x, resources: {requests: {cpu: 10m, memory: 16Mi}}}]
END
done
