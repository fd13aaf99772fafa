# Boots systemd in a container that sees the system it runs on and writes to memory, and runs install.sh in it.
# $1 is a directory with old.deb, new.deb and install.sh, in which it leaves the log. It runs in a mount
# namespace of its own, so that nothing stays mounted.
set -euo pipefail
dir=$1
memory=$dir/memory
mkdir "$memory"
mount -t tmpfs tmpfs "$memory"
mkdir "$memory/upper" "$memory/work" "$memory/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" "$memory/root"
root=$memory/root
mkdir "$root/greenroom-test"
rm -f "$root/usr/sbin/policy-rc.d" # images of containers have it so that no service starts
cp "$dir/old.deb" "$dir/new.deb" "$dir/install.sh" "$root/greenroom-test/"
cat >"$root/etc/systemd/system/greenroom-test.service" <<'UNIT'
[Unit]
Requires=basic.target
After=basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash /greenroom-test/install.sh /greenroom-test
StandardOutput=file:/greenroom-test/log
StandardError=inherit
UNIT
systemd-nspawn --quiet --register=no --keep-unit --private-network --link-journal=no \
  --machine=greenroom-test --directory="$root" --boot systemd.unit=greenroom-test.service \
  </dev/null >"$dir/console" 2>&1 || true
cp "$root/greenroom-test/log" "$dir/log"
