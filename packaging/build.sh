#!/usr/bin/env bash
# Builds the Debian and RPM packages into the directory OUT with nfpm, which NFPM names: see `make package`.
# VERSION names the version; without it, it is the time and the hash of the last commit.
# BINARY names a greenroom that is built already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
nfpm=$(realpath "${NFPM:?must name the nfpm to use}")
mkdir -p "${OUT:?must name the directory for the packages}"
OUT=$(realpath "$OUT")
# ~ sorts before everything: a release 0.0.0 would come after it.
VERSION=${VERSION:-0.0.0~$(TZ=UTC git show -s --format=%cd --date=format-local:%Y%m%d%H%M%S HEAD).$(git rev-parse --short=12 HEAD)}
ARCH=${ARCH:-$("$go" env GOARCH)}
STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
if [ -n "${BINARY:-}" ]; then
  cp "$BINARY" "$STAGE/greenroom"
else
  CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH "$go" build -trimpath -ldflags "-s -w -X main.release=$VERSION" -o "$STAGE/greenroom" ./cmd/greenroom
fi
export STAGE VERSION ARCH
for format in ${FORMATS:-deb rpm}; do
  "$nfpm" package --config packaging/nfpm.yaml --packager "$format" --target "$OUT/"
done
