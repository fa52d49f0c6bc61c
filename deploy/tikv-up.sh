#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Brings up the TiKV cluster of k8s/tikv and waits until it serves. Installs the
# TiDB Operator when its resource types are not there. Run again, it changes what
# differs.
#
#   PD_REPLICAS=3 TIKV_REPLICAS=12 STORAGE_CLASS=ssd-storage deploy/tikv-up.sh
#   VARIANT=tls deploy/tikv-up.sh          operator v2 with TLS (deploy/tikv-certs.sh first)
#   VARIANT=v1 deploy/tikv-up.sh           operator v1; v1-tls: with TLS
#
# WAIT is how long it waits (default 15m; 0: not at all).
set -euo pipefail

VARIANT=${VARIANT:-v2}
PD_REPLICAS=${PD_REPLICAS:-3}
TIKV_REPLICAS=${TIKV_REPLICAS:-3}
STORAGE_CLASS=${STORAGE_CLASS:-ssd-storage}
OPERATOR_V2=${OPERATOR_V2:-v2.0.0}
OPERATOR_V1=${OPERATOR_V1:-v1.6.1}
WAIT=${WAIT:-15m}
KUBECTL=${KUBECTL:-kubectl}

readonly namespace=tikv-cluster name=basic
readonly releases=https://github.com/pingcap/tidb-operator/releases/download
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { echo "tikv-up: $*" >&2; exit 1; }
has_type() { "$KUBECTL" get crd "$1" >/dev/null 2>&1; }

for n in "$PD_REPLICAS" "$TIKV_REPLICAS"; do
  [[ $n =~ ^[1-9][0-9]*$ ]] || die "'$n' is not a number of replicas"
done

case $VARIANT in
v2) overlay=$root/k8s/tikv ;;
tls | v1 | v1-tls) overlay=$root/k8s/tikv/overlays/$VARIANT ;;
*) die "VARIANT is '$VARIANT': want v2, tls, v1 or v1-tls" ;;
esac

if [[ $VARIANT == v1* ]]; then
  if ! has_type tidbclusters.pingcap.com; then
    command -v helm >/dev/null || die "TiDB Operator v1 is not installed, and there is no helm to install it with"
    "$KUBECTL" create -f "https://raw.githubusercontent.com/pingcap/tidb-operator/$OPERATOR_V1/manifests/crd.yaml"
    helm upgrade --install tidb-operator tidb-operator --repo https://charts.pingcap.org/ \
      --namespace tidb-admin --create-namespace --version "$OPERATOR_V1"
  fi
  kinds=(tidbcluster)
  replicas() { # as patches of the one object
    cat <<PATCH
- target: {kind: TidbCluster}
  patch: |
    - {op: replace, path: /spec/pd/replicas, value: $PD_REPLICAS}
    - {op: replace, path: /spec/tikv/replicas, value: $TIKV_REPLICAS}
    - {op: replace, path: /spec/pd/storageClassName, value: $STORAGE_CLASS}
    - {op: replace, path: /spec/tikv/storageClassName, value: $STORAGE_CLASS}
PATCH
  }
else
  if ! has_type tikvgroups.core.pingcap.com; then
    "$KUBECTL" apply --server-side -f "$releases/$OPERATOR_V2/tidb-operator.crds.yaml"
    "$KUBECTL" apply --server-side -f "$releases/$OPERATOR_V2/tidb-operator.yaml"
    "$KUBECTL" -n tidb-admin rollout status deployment --timeout=5m
  fi
  kinds=(pdgroup tikvgroup)
  replicas() {
    cat <<PATCH
- target: {kind: PDGroup}
  patch: |
    - {op: replace, path: /spec/replicas, value: $PD_REPLICAS}
    - {op: replace, path: /spec/template/spec/volumes/0/storageClassName, value: $STORAGE_CLASS}
- target: {kind: TiKVGroup}
  patch: |
    - {op: replace, path: /spec/replicas, value: $TIKV_REPLICAS}
    - {op: replace, path: /spec/template/spec/volumes/0/storageClassName, value: $STORAGE_CLASS}
PATCH
  }
fi

"$KUBECTL" get storageclass "$STORAGE_CLASS" >/dev/null 2>&1 ||
  die "there is no storage class '$STORAGE_CLASS': name one of a local disk with STORAGE_CLASS"

# kustomize takes no absolute paths.
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
{
  printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n'
  printf 'resources: ["%s"]\npatches:\n' "$(realpath --relative-to="$build" "$overlay")"
  replicas
} >"$build/kustomization.yaml"
"$KUBECTL" kustomize "$build" | "$KUBECTL" apply --server-side -f -

if [[ $WAIT == 0 ]]; then
  exit
fi
for kind in "${kinds[@]}"; do
  "$KUBECTL" -n "$namespace" wait "$kind/$name" --for=condition=Ready --timeout="$WAIT" ||
    die "$kind/$name is not ready after $WAIT; see: $KUBECTL -n $namespace get pods, and the operator's log"
done
echo "TiKV is up; clients in the cluster reach it at $name-pd.$namespace:2379"
