#!/usr/bin/env bash
# Runs what finds more the longer it runs: chaos for the whole of the time, verify for an hour, and
# then each part but raced for a third of the time:
# scripts/soak.sh [SECONDS, 1800 by default [SECONDS of verify, 3600 by default]]
#
#   chaos   the processes of a cluster killed, stopped and cut off, with random seeds
#   verify  `greenroom verify`: servers killed under load, with 20 kills a store, on SQLite,
#           on PostgreSQL and on a small disk that is full at each kill, a third of its time each
#   long    the packages that use internal/soaktest, with the long form of their tests
#   raced   the race detector on what is tested without it in `make test`, once
#   attack  random programs on the engine, on virtual actors and on far ones, with random seeds: half
#           of the time as it is, the other half with its assertions and on one processor
#   stress  scripts/stress.sh
#   fuzz    scripts/fuzz.sh
#
# A part ends what it has begun when its time is over, and the long forms run at
# least once. Each says what it ran and for how long; the last lines say it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-1800}
third=$((seconds / 3))
verify_third=$((${2:-3600} / 3))
summary=""
failed=0

# part runs one of them and notes what it took and how it ended.
part() {
  local name=$1 began=$SECONDS status=0
  echo "== $name"
  "$@" || status=$?
  [ "$status" = 0 ] || failed=1
  summary+="soak: $name: $((SECONDS - began))s, $([ "$status" = 0 ] && echo passed || echo FAILED)"$'\n'
}

# told runs a test and prints what it says of itself, or all where it fails.
told() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" = 0 ]; then
    sed -n 's/^.*soak: /  /p' "$log"
  else
    cat "$log"
  fi
  rm -f "$log"
  return "$status"
}

chaos() {
  told go test -count=1 -timeout="$((seconds + 1800))s" -v -run Trouble ./cluster/chaos -chaos.time "${seconds}s"
}

# verified runs one of the tests that run verify, with the environment that is given.
verified() {
  local name=$1
  shift
  told env "$@" go test -count=1 -timeout="$((verify_third + 1800))s" -v -run "^$name\$" ./cmd/greenroom -verify.time "${verify_third}s"
}

verify() {
  local status=0
  verified TestNothingOfAllKindsIsLostOrDoubledByKill || status=$?
  # What internal/pgtest starts a test with that runs on PostgreSQL.
  verified TestNothingOfAllKindsIsLostOrDoubledByKill GREENROOM_TEST_ON_POSTGRES=1 || status=$?
  verified TestNothingIsLostByKillsAndAFullDisk || status=$?
  return "$status"
}

long() {
  local packages package log began round=0 end=$((SECONDS + third))
  packages=$(go list -f '{{$p := .ImportPath}}{{range .TestImports}}{{.}} {{$p}}
{{end}}{{range .XTestImports}}{{.}} {{$p}}
{{end}}' ./... | sed -n 's|^[^ ]*/internal/soaktest ||p' | sort -u)
  if [ -z "$packages" ]; then
    echo "long: no package uses internal/soaktest"
    return 1
  fi
  log=$(mktemp)
  while [ "$round" = 0 ] || [ "$SECONDS" -lt "$end" ]; do
    round=$((round + 1))
    for package in $packages; do
      began=$SECONDS
      if ! GREENROOM_SOAK=1 go test -count=1 -shuffle=on -timeout=2h -v "$package" >"$log" 2>&1; then
        cat "$log"
        echo "long: $package failed in round $round after $((SECONDS - began))s; all of its output stands above"
        rm -f "$log"
        return 1
      fi
      sed -n 's/^.*soak: /  /p' "$log"
      echo "long: $package, round $round: $((SECONDS - began))s"
    done
  done
  rm -f "$log"
}

# raced watches the packages that `make test` does not, although they share memory
# (internal/check/testrun/plan.go).
raced() {
  CGO_ENABLED=1 go test -race -count=1 -timeout=1h ./cmd/greenroom
  CGO_ENABLED=1 go test -race -count=1 -timeout=1h -run Sim ./cluster
}

# attacked attacks by a package for some seconds: half of them the engine as it is.
attacked() {
  local package=$1 half=$(($2 / 2)) status=0
  told go test -count=1 -timeout="$((half + 1800))s" -v "$package" -attack.time "${half}s" || status=$?
  told env GOMAXPROCS=1 go test -tags=invariants -count=1 -timeout="$((half + 1800))s" -v "$package" -attack.time "${half}s" || status=$?
  return "$status"
}

attack() {
  local status=0
  attacked ./internal/attack "$((third / 2))" || status=$?
  attacked ./internal/attack/virtual "$((third / 4))" || status=$?
  attacked ./internal/attack/far "$((third / 4))" || status=$?
  return "$status"
}

stress() { scripts/stress.sh "$third"; }
fuzz() { scripts/fuzz.sh 100000x "$third"; }

part chaos
part verify
part long
part raced
part attack
part stress
part fuzz
printf '%s' "$summary"
[ "$failed" = 0 ]
