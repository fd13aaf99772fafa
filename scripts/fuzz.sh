#!/usr/bin/env bash
# Fuzzes each target of the repository for a short while, one after the other:
# scripts/fuzz.sh [EXECUTIONS, 100000x by default, or a duration such as 10s]
#
# A new input that fails is written by Go to testdata/fuzz beside the test; it
# belongs into the commit that mends the bug.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

budget=${1:-100000x}
found=0
failed=0
failures=""

while IFS= read -r dir; do
  targets=$(go test -list '^Fuzz' "./$dir" | grep '^Fuzz' || true)
  for target in $targets; do
    found=$((found + 1))
    echo "== $dir $target ($budget)"
    if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$budget" -fuzzminimizetime 5s "./$dir"; then
      failed=$((failed + 1))
      failures+=" $dir/$target"
    fi
  done
done < <(find . \( -name .git -o -name node_modules \) -prune -o -name '*_test.go' -print0 |
  xargs -0 grep -l '^func Fuzz' | xargs -r -n 1 dirname | sed 's|^\./||' | sort -u)

if [ "$found" = 0 ]; then
  echo "fuzz: no target found: each decoder of bytes from outside must have one" >&2
  exit 1
fi
echo "fuzz: $found targets, $failed failed:${failures:- none}"
[ "$failed" = 0 ]
