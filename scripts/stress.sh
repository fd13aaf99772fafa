#!/usr/bin/env bash
# Runs the tests of the engine and its neighbors over and over, in random order, with the race
# detector and with the engine's assertions compiled in, a quarter of the time each at
# GOMAXPROCS 1, 2, 4 and 8:
# scripts/stress.sh [SECONDS, 600 by default]
#
# The walk through all interleavings of the actor's word is left out: it is the same each time.
# Of sim there is the test on the real scheduler: its other runs have one goroutine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-600}
packages="actor router eventbus actortest sim"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

failed() {
  cat "$dir/$1.log" || true
  echo "stress: $1 failed at GOMAXPROCS=$2, in round $3" >&2
  exit 1
}

for package in $packages; do
  CGO_ENABLED=1 go test -c -race -tags=invariants -o "$dir/$package.test" "./$package"
done

for procs in 1 2 4 8; do
  rounds=0
  end=$((SECONDS + seconds / 4))
  while [ "$SECONDS" -lt "$end" ]; do
    for package in $packages; do
      log=$dir/$package.log
      only=.
      [ "$package" != sim ] || only='^TestTheEngineKeepsItsPromisesOnTheRealScheduler$'
      (cd "$package" && GOMAXPROCS=$procs "$dir/$package.test" -test.shuffle=on -test.timeout=10m \
        -test.run="$only" -test.skip='^TestEveryInterleaving') >"$log" 2>&1 || failed "$package" "$procs" $((rounds + 1))
    done
    rounds=$((rounds + 1))
  done
  echo "GOMAXPROCS=$procs: $rounds rounds of $packages"
done
