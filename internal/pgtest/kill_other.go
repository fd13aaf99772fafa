//go:build unix && !linux

package pgtest

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// killAll ends the server without a shutdown: SIGQUIT makes it and its processes
// exit at once, and the next start recovers as after a crash. Killing it alone
// would leave its processes at work.
func killAll(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if <-tick.C; time.Now().After(deadline) {
			return fmt.Errorf("process %d does not end", pid)
		}
	}
}
