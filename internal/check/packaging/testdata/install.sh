# What the test of the Debian package does in a container that systemd has booted. $1 has the packages
# old.deb and new.deb. Each line of its output that begins with "== " says what is checked next.
set -euo pipefail
cd "$1"
export DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

step() { echo "== $*"; }
fail() { echo "FAILED: $*"; systemctl status --no-pager --full greenroom || true; journalctl --no-pager -u greenroom -n 30 || true; exit 1; }
is() { [ "$2" = "$3" ] || fail "$1 is \"$2\", not \"$3\""; }
state() { systemctl is-active greenroom || true; }
api() { curl --silent --show-error --fail --max-time 10 "$@"; }
readings() { api http://127.0.0.1:8080/v1/entities/room-1 | grep -o '"temperature":{[^}]*}' | sed 's/.*"value":\([0-9.]*\).*/\1/'; }
running_version() { api http://127.0.0.1:8080/v1/system | sed 's/.*"version":"\([^"]*\)".*/\1/'; }

step it is started when it is installed
dpkg --install old.deb
is "the service" "$(state)" active
is "at boot it" "$(systemctl is-enabled greenroom)" enabled
is "its version" "$(running_version)" 1.0.0
api -X POST -H 'Content-Type: application/json' -d '{"temperature":21.5}' http://127.0.0.1:8080/v1/entities/room-1/telemetry
is "what was stored" "$(readings)" 21.5

step its user has its data and its configuration, and others do not
is "the owner of the data" "$(stat -c '%U:%G %a' /var/lib/greenroom)" "greenroom:greenroom 700"
is "the owner of the configuration" "$(stat -c '%U:%G %a' /etc/greenroom/greenroom.toml)" "root:greenroom 640"
is "who runs it" "$(ps -o user= -C greenroom)" greenroom

step its unit has no mistakes and lets it do little
systemd-analyze verify greenroom.service
systemd-analyze security --no-pager --threshold=20 greenroom.service | tail -n 1

step an upgrade keeps what was stored and configured, and starts the new version
echo '# kept' >>/etc/greenroom/greenroom.toml
dpkg --install new.deb
is "the service" "$(state)" active
is "its version" "$(running_version)" 1.0.1
is "what was stored" "$(readings)" 21.5
is "the configuration" "$(tail -n 1 /etc/greenroom/greenroom.toml)" "# kept"

step an upgrade leaves stopped what was stopped
systemctl stop greenroom
dpkg --install new.deb
is "the service" "$(state)" inactive
systemctl start greenroom

step it is stopped when it is removed, and keeps what was stored and configured
dpkg --remove greenroom
is "the service" "$(state)" inactive
[ -e /var/lib/greenroom ] || fail "the data is gone"
is "the configuration" "$(tail -n 1 /etc/greenroom/greenroom.toml)" "# kept"
dpkg --install new.deb
is "what was stored" "$(readings)" 21.5

step a purge leaves nothing
dpkg --purge greenroom
is "the service" "$(state)" inactive
for path in /var/lib/greenroom /etc/greenroom /usr/bin/greenroom /etc/systemd/system/multi-user.target.wants/greenroom.service; do
  [ ! -e "$path" ] || fail "$path is still there"
done
! getent passwd greenroom || fail "the user is still there"
is "what systemd knows of it" "$(systemctl show -P LoadState greenroom)" not-found

echo passed
