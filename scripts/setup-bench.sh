#!/usr/bin/env bash
# Installs what `make bench` needs besides Go: Erlang/OTP, one of the runtimes that
# it measures. As root on Debian or Ubuntu it installs Debian's package. Elsewhere,
# or if that fails, it reports what will be skipped: the benchmark runs without it
# and says so in its table.
set -euo pipefail

have_erlang() { command -v erl >/dev/null 2>&1 && command -v erlc >/dev/null 2>&1; }
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 "$@" </dev/null
}

if ! have_erlang && can_install; then
  echo "setup: installing erlang-base"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  { apt update && apt install -y --no-install-recommends erlang-base; } >"$log" 2>&1 || tail -n 20 "$log"
fi

if have_erlang; then
  echo "setup: Erlang/OTP is there"
else
  echo "setup: MISSING erl and erlc (Debian: erlang-base): make bench skips Erlang/OTP" >&2
fi
