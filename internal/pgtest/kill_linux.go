package pgtest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killAll kills the server and its processes at once, and waits until they are
// gone. The server is stopped first, so that it does not notice the death of the
// others and start new ones.
func killAll(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	all, err := children(pid)
	if err != nil {
		return errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
	}
	all = append(all, pid)
	for _, p := range all {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for _, p := range all {
		for alive(p) {
			if <-tick.C; time.Now().After(deadline) {
				return fmt.Errorf("process %d does not die", p)
			}
		}
	}
	return nil
}

// children returns the processes that a process has started.
func children(pid int) (list []int, err error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if fields := stat(p); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			list = append(list, p)
		}
	}
	return list, nil
}

// stat returns the fields of /proc/pid/stat after the name: the state, the
// parent, and more. It returns nil for a process that is gone.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// alive reports whether a process runs. One that nobody has waited for does not.
func alive(pid int) bool {
	fields := stat(pid)
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}
