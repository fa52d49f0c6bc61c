#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Labels nodes for a benchmark: so many for load generators, for PD and for TiKV.
# Nodes that have one of the labels keep it, so running it again changes nothing
# and a larger number adds nodes. Control-plane nodes are left alone.
#
#   CLIENT_NODES=7 PD_NODES=1 TIKV_NODES=12 deploy/label-nodes.sh
#   deploy/label-nodes.sh --remove        take all of these labels away
set -euo pipefail

CLIENT_NODES=${CLIENT_NODES:-7}
PD_NODES=${PD_NODES:-1}
TIKV_NODES=${TIKV_NODES:-12}
KUBECTL=${KUBECTL:-kubectl}

readonly client=node-role.kubernetes.io/benchmark-client
readonly pd=node-role.kubernetes.io/pd
readonly tikv=node-role.kubernetes.io/tikv

die() { echo "label-nodes: $*" >&2; exit 1; }

for n in "$CLIENT_NODES" "$PD_NODES" "$TIKV_NODES"; do
  [[ $n =~ ^[0-9]+$ ]] || die "'$n' is not a number of nodes"
done

if [[ ${1:-} == --remove ]]; then
  for label in "$client" "$pd" "$tikv"; do
    "$KUBECTL" label nodes -l "$label" "$label-"
  done
  exit
fi
[[ $# -eq 0 ]] || die "unknown argument '$1'"

labelled() { "$KUBECTL" get nodes -l "$1" -o name; }
unlabelled() { "$KUBECTL" get nodes -l "!$client,!$pd,!$tikv,!node-role.kubernetes.io/control-plane" -o name; }
count() { if [[ -n $1 ]]; then wc -l <<<"$1"; else echo 0; fi; }

# missing LABEL WANTED: how many nodes the label still needs.
missing() {
  local have
  have=$(count "$(labelled "$1")")
  if ((have > $2)); then
    echo "label-nodes: $have nodes have $1, $2 were asked for; they are left as they are (--remove takes the labels away)" >&2
  fi
  echo $(($2 > have ? $2 - have : 0))
}

needed_clients=$(missing "$client" "$CLIENT_NODES")
needed_pd=$(missing "$pd" "$PD_NODES")
needed_tikv=$(missing "$tikv" "$TIKV_NODES")
needed=$((needed_clients + needed_pd + needed_tikv))
mapfile -t free < <(unlabelled)
((${#free[@]} >= needed)) ||
  die "$needed more nodes are needed ($needed_clients for clients, $needed_pd for PD, $needed_tikv for TiKV) and ${#free[@]} are free: ask for fewer with CLIENT_NODES, PD_NODES, TIKV_NODES, or add nodes"

# assign LABEL N: labels the next N free nodes.
assign() {
  if (($2 > 0)); then
    "$KUBECTL" label "${free[@]:0:$2}" "$1=true"
    free=("${free[@]:$2}")
  fi
}
assign "$client" "$needed_clients"
assign "$pd" "$needed_pd"
assign "$tikv" "$needed_tikv"
"$KUBECTL" get nodes
