package pgtest

import (
	"errors"
	"os/exec"
)

// account is not needed where no server is started.
type account struct{}

func unprivileged() (account, error) { return account{}, errors.ErrUnsupported }
func (account) own(string) error     { return errors.ErrUnsupported }
func (account) apply(*exec.Cmd)      {}

func killAll(int) error { return errors.ErrUnsupported }
