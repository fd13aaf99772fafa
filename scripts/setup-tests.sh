#!/usr/bin/env bash
# Installs what `make test` needs beside Go: a C compiler for the race
# detector, Chromium with a font for the browser tests, curl, the Mosquitto clients
# for the tests that publish with somebody else's MQTT client, tmux, PostgreSQL,
# which the tests start by themselves, systemd-nspawn, in which they install the
# Debian package, rpm, with which they unpack the RPM, and npm, which builds the dashboard and installs clients of
# other projects for the tests.
#
# On Debian and Ubuntu as root it installs what is missing. Elsewhere it says
# what is missing, how to get it, and what will be skipped for want of it. Only
# a missing C compiler is fatal, and only while the race detector is asked for
# (RACE not empty): without it no test could run.
set -euo pipefail

race=${RACE--race}

have() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null 2>&1 && return 0
  done
  return 1
}

have_compiler() { have "${CC:-gcc}" gcc clang; }
# The names that server/browsertest looks for, and the variable that overrides them.
have_browser() { have "${GREENROOM_BROWSER:-chromium}" chromium chromium-browser google-chrome; }
# Without a font Chromium draws empty boxes, and a screenshot shows nothing.
have_font() {
  [ "$(uname -s)" = Darwin ] && return 0
  have fc-list && [ -n "$(fc-list 2>/dev/null | head -n 1)" ]
}
have_curl() { have curl; }
have_mosquitto() { have mosquitto_pub; }
have_tmux() { have tmux; }
# web/package.json names the version.
# The package is tested where it is for.
have_container() { [ "$(uname -s)" != Linux ] || ! have dpkg || have systemd-nspawn; }
have_rpm() { [ "$(uname -s)" != Linux ] || have rpm; }
have_npm() { have npm && [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 20 ]; }
# The places that internal/pgtest looks at, and the variable that overrides them.
have_postgres() {
  local dir
  have initdb && have pg_ctl && have pg_dump && return 0
  for dir in "${GREENROOM_POSTGRES_BIN:-}" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
    /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
    [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] && [ -x "$dir/pg_dump" ] && return 0
  done
  return 1
}

# One part a line: its check, its Debian packages, what it is for.
parts() {
  # The race detector needs no C compiler on macOS and Windows.
  if [ -n "$race" ] && [ "$(uname -s)" = Linux ]; then
    echo "have_compiler|gcc libc6-dev|a C compiler: the race detector, without which nothing is tested"
  fi
  echo "have_browser|chromium|Chromium: the browser tests of the dashboard"
  echo "have_font|fonts-dejavu-core fontconfig|a font: readable screenshots of the dashboard"
  echo "have_curl|curl ca-certificates|curl: the commands of docs/guides/entities.md, which a test runs"
  echo "have_mosquitto|mosquitto-clients|mosquitto_pub: the tests that publish with another project's MQTT client"
  echo "have_tmux|tmux|tmux: the test that uses the console on a terminal"
  echo "have_npm|nodejs npm|Node.js 20 or later with npm: the tests that build the dashboard and run clients of other projects"
  echo "have_container|systemd-container|systemd-nspawn: the test that installs the Debian package, in a container"
  echo "have_rpm|rpm|rpm: the test that looks into the RPM and unpacks it"
  echo "have_postgres|postgresql|PostgreSQL: the tests of the store for it"
}

missing_packages() {
  local check packages
  while IFS='|' read -r check packages _; do
    "$check" || printf '%s ' "$packages"
  done < <(parts)
}

can_install() { [ "$(id -u)" = 0 ] && have apt-get dpkg; }

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 "$@" </dev/null
}

install() {
  local log
  log=$(mktemp)
  echo "setup: installing $*"
  # All at once is quicker; one by one salvages the rest when one of them
  # cannot be had.
  if apt update >"$log" 2>&1 && apt install -y --no-install-recommends "$@" >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  local package
  for package in "$@"; do
    apt install -y --no-install-recommends "$package" >>"$log" 2>&1 ||
      echo "setup: apt-get could not install $package"
  done
  tail -n 20 "$log"
  rm -f "$log"
}

# Debian's package makes a cluster and starts it at once, on the port that
# somebody else may want. This file, while it is there, keeps it from that; the
# tests make a cluster of their own, in a temporary directory.
no_cluster=/etc/postgresql-common/createcluster.d/greenroom-tests.conf

install_without_cluster() {
  mkdir -p "$(dirname "$no_cluster")"
  echo 'create_main_cluster = false' >"$no_cluster"
  trap 'rm -f "$no_cluster"' EXIT
  install "$@"
  rm -f "$no_cluster"
  trap - EXIT
}

read -ra wanted < <(missing_packages; echo)
if [ "${#wanted[@]}" -gt 0 ] && can_install; then
  if have_postgres; then
    install "${wanted[@]}"
  else
    install_without_cluster "${wanted[@]}"
  fi
fi

total=0
missing=0
fatal=0
report=""
while IFS='|' read -r check _ purpose; do
  total=$((total + 1))
  "$check" && continue
  missing=$((missing + 1))
  report+="setup:   missing: $purpose"$'\n'
  [ "$check" != have_compiler ] || fatal=1
done < <(parts)

if [ "$missing" = 0 ]; then
  echo "setup: all $total parts that the tests need are here"
  exit 0
fi

read -ra wanted < <(missing_packages; echo)
{
  echo "setup: ****************************************************************"
  echo "setup: $missing of $total parts that the tests need are MISSING; the tests that"
  echo "setup: need them are SKIPPED, each is counted and named at the end"
  printf '%s' "$report"
  echo "setup: on Debian and Ubuntu: sudo apt-get install ${wanted[*]}"
  echo "setup: ****************************************************************"
} >&2

if [ "$fatal" = 1 ]; then
  echo "setup: no C compiler: install one, or run the tests without the race detector: make test RACE=" >&2
  exit 1
fi
