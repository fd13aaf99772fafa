//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who the server runs as: the test's own user, or another one where
// that is root.
type account struct{ credential *syscall.Credential }

// unprivileged finds somebody who PostgreSQL is willing to run as.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, err
		}
		return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// own gives a directory to the account, and to nobody else.
func (a account) own(dir string) error {
	if err := os.Chmod(dir, 0o700); err != nil || a.credential == nil {
		return err
	}
	return os.Chown(dir, int(a.credential.Uid), int(a.credential.Gid))
}

// apply makes a command run as the account, in a session of its own: an interrupt
// from the terminal is for the test.
func (a account) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Setsid: true}
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+cmd.Dir)
}
