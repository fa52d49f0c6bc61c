#!/bin/sh
# Carries out each shipped study on playgrounds on this machine, made short, in some five minutes: make study-demo.
# OUT is the folder for results and pages (default: results), ONLY the names of the studies (default: all).
set -eu
cd "$(dirname "$0")/../../.."
PATH="$PWD/bin:$PATH"
out=${OUT:-results}
work=$(mktemp -d)
started=
ended() {
	[ -z "$started" ] || kill $started 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap ended EXIT
trap 'exit 130' INT TERM

serve() {
	kvbench playground "$@" >"$work/playground" 2>&1 &
	started="$started $!"
	while ! grep -q '^ready' "$work/playground"; do
		kill -0 $! || { cat "$work/playground"; exit 1; }
		sleep 0.1
	done
}
serve --stores 3 --store-port 0
serve --stores 3 --pd 127.0.0.1:3379 --store-port 0 --admin ""

for name in ${ONLY:-threads node-killed two-clusters day}; do
	case $name in
	threads) short="--repeats 1 --duration 2s --warmup 1s --pause 0s" ;;
	node-killed) short="--repeats 1 --duration 25s --pause 0s" ;;
	two-clusters) short="--duration 3s --warmup 1s --pause 0s" ;;
	day) short="--repeats 1 --pause 0s -p target=$work/day.csv@15s --duration 15s" ;;
	esac
	kvbench study init "$name" >"$work/$name.yaml"
	[ "$name" != day ] || kvbench study init day.csv >"$work/day.csv"
	echo
	echo "\$ kvbench study $name.yaml $short"
	kvbench study "$work/$name.yaml" $short --quiet --out "$out"
	for dir in "$out/$name"-*; do latest=$dir; done
	kvbench study report "$latest" --format html -o "$latest.html"
	echo "as a page: $latest.html"
done
