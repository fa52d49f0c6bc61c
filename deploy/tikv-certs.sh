#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the certificates of the TLS variants of k8s/tikv, as Secrets: those of PD
# and TiKV and the operator's client in namespace tikv-cluster, and the client's
# for kvbench in its namespace. Run again, it renews them under the same authority,
# whose files stay in the folder named:
#
#   deploy/tikv-certs.sh DIR
set -euo pipefail

KUBECTL=${KUBECTL:-kubectl}
DAYS=${DAYS:-365}
KVBENCH_NAMESPACE=${KVBENCH_NAMESPACE:-kvbench}
readonly namespace=tikv-cluster name=basic

[[ $# -eq 1 ]] || { echo "usage: tikv-certs.sh DIR" >&2; exit 2; }
umask 077
mkdir -p "$1"
cd "$1"

if [[ ! -s ca.crt || ! -s ca.key ]]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days $((10 * DAYS)) \
    -subj "/CN=TiKV benchmark authority" -keyout ca.key -out ca.crt
fi

# certificate FILE HOST…: both server and client, since stores call each other.
certificate() {
  local file=$1 hosts="IP:127.0.0.1,IP:::1,DNS:localhost" host
  shift
  for host in "$@"; do hosts+=",DNS:$host"; done
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj "/CN=TiDB" -keyout "$file.key" -out "$file.csr"
  openssl x509 -req -in "$file.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days "$DAYS" -out "$file.crt" \
    -extfile <(printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=%s\n' "$hosts")
  rm "$file.csr"
}
# names SERVICE: every name under which pods call a service and its pods.
names() {
  local s
  for s in "$1" "$1.$namespace" "$1.$namespace.svc" "$1.$namespace.svc.cluster.local"; do
    echo "$s" "*.$s"
  done
}
# secret NAMESPACE NAME FILE
secret() {
  "$KUBECTL" create namespace "$1" --dry-run=client -o yaml | "$KUBECTL" apply --server-side -f -
  "$KUBECTL" -n "$1" create secret generic "$2" --dry-run=client -o yaml \
    --from-file=ca.crt --from-file=tls.crt="$3.crt" --from-file=tls.key="$3.key" | "$KUBECTL" apply --server-side -f -
}

# shellcheck disable=SC2046 # a list of names
certificate pd $(names "$name-pd") $(names "$name-pd-peer")
# shellcheck disable=SC2046
certificate tikv $(names "$name-tikv") $(names "$name-tikv-peer")
certificate client
secret "$namespace" "$name-pd-cluster-secret" pd
secret "$namespace" "$name-tikv-cluster-secret" tikv
secret "$namespace" "$name-cluster-client-secret" client
secret "$KVBENCH_NAMESPACE" kvbench-tikv-tls client
