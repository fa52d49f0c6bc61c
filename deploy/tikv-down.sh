#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Deletes the TiKV cluster of k8s/tikv, with all data in it. Asks first, unless
# called with --yes. The operator and the node labels stay.
set -euo pipefail

KUBECTL=${KUBECTL:-kubectl}
readonly namespace=tikv-cluster name=basic

die() { echo "tikv-down: $*" >&2; exit 1; }

if ! "$KUBECTL" get namespace "$namespace" >/dev/null 2>&1; then
  echo "There is no namespace $namespace: nothing to delete."
  exit
fi
if [[ ${1:-} != --yes ]]; then
  [[ $# -eq 0 ]] || die "unknown argument '$1'"
  echo "This deletes the TiKV cluster $name in namespace $namespace of $("$KUBECTL" config current-context),"
  echo "its volumes and ALL DATA in them. There is no way back."
  "$KUBECTL" -n "$namespace" get pods,pvc 2>/dev/null || true
  read -r -p "Type the namespace's name to go on: " answer || true
  [[ ${answer:-} == "$namespace" ]] || die "nothing was deleted"
fi

# Volumes of databases are usually retained; these are to go.
volumes=$("$KUBECTL" get pv -o jsonpath="{range .items[?(@.spec.claimRef.namespace=='$namespace')]}{.metadata.name}{'\n'}{end}")
for volume in $volumes; do
  "$KUBECTL" patch pv "$volume" -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'
done
for kind in tikvgroups.core.pingcap.com pdgroups.core.pingcap.com clusters.core.pingcap.com tidbclusters.pingcap.com; do
  if "$KUBECTL" get crd "$kind" >/dev/null 2>&1; then
    "$KUBECTL" -n "$namespace" delete "$kind" "$name" --ignore-not-found --timeout=5m
  fi
done
"$KUBECTL" delete namespace "$namespace" --timeout=10m
