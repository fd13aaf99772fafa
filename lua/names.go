package lua

import (
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// maxNames is how many names a service has.
const maxNames = 1000

// errNoName says that nobody has a name.
var errNoName = errors.New("nobody has the name")

// checkName says what is wrong with a name.
func checkName(name string) error {
	if len(name) < 2 || len(name) > 128 || !strings.HasPrefix(name, ".") {
		return fmt.Errorf("a name must begin with a dot and have 2 to 128 bytes, not %.140q", name)
	}
	return nil
}

// Name gives a service a name by which scripts find it: ".bank". The name is free again when the
// service has ended. Name fails if the name does not begin with a dot, if another service has it,
// if the service has ended or belongs to another runtime, and if it already has 1000 names.
func (rt *Runtime) Name(name string, ref actor.Ref[Message]) error {
	if err := checkName(name); err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	other, taken := rt.names[name]
	switch {
	case taken && other == ref:
		return nil
	case taken:
		return fmt.Errorf("name %s: %w by %s", name, actor.ErrNameTaken, other)
	}
	a := rt.accountOf(ref.PID())
	if a == nil || a.ended {
		return fmt.Errorf("name %s: %w", name, actor.ErrStopped)
	}
	if len(a.names) >= maxNames {
		return fmt.Errorf("name %s: the service has %d names already", name, maxNames)
	}
	a.names = append(a.names, name)
	rt.names[name] = ref
	return nil
}

// Find returns the service that has a name, and whether there is one.
func (rt *Runtime) Find(name string) (actor.Ref[Message], bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	ref, ok := rt.names[name]
	return ref, ok
}

// forget ends the account of a service that has ended, and its names.
func (rt *Runtime) forget(a *account) {
	rt.living.Add(-1)
	rt.accounts.Delete(a.pid)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, name := range a.names {
		delete(rt.names, name)
	}
	for file := range a.versions {
		if delete(rt.having[file], a); len(rt.having[file]) == 0 {
			delete(rt.having, file)
		}
	}
	a.names, a.versions, a.ended = nil, nil, true
}
