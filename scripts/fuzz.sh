#!/usr/bin/env bash
# Fuzzes each target of the repository for a short while, one after the other:
# scripts/fuzz.sh [EXECUTIONS, 100000x by default [SECONDS]]
#
# With SECONDS it goes through the targets again and again until that time is
# over; without, it goes through them once.
#
# Go writes a new failing input to testdata/fuzz beside the test; it belongs in the
# commit that fixes the bug.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

budget=${1:-100000x}
seconds=${2:-0}
runs=0
failures=""

targets=$(grep -rn --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . |
  sed -E 's|^\./(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort -u)
if [ -z "$targets" ]; then
  echo "fuzz: no target found: each decoder of bytes from outside must have one" >&2
  exit 1
fi

is_over() { [ "$seconds" -gt 0 ] && [ "$SECONDS" -ge "$seconds" ]; }

while true; do
  while read -r dir target; do
    is_over && break
    runs=$((runs + 1))
    echo "== $dir $target ($budget)"
    if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$budget" -fuzzminimizetime 5s "./$dir" </dev/null; then
      failures+=" $dir/$target"
    fi
  done <<<"$targets"
  if [ "$seconds" = 0 ] || is_over || [ -n "$failures" ]; then
    break
  fi
done
echo "fuzz: $(wc -l <<<"$targets") targets, $runs runs of $budget in ${SECONDS}s, failed:${failures:- none}"
[ -z "$failures" ]
