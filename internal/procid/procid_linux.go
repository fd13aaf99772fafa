package procid

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

var own = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	// That of another namespace, as a container may have it mounted, has others by these numbers.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return ""
	}
	// Its offset is in the times that /proc shows: in another one a process would have begun at another time.
	if clock, err := os.Readlink("/proc/self/ns/time"); err == nil {
		namespace += " " + clock
	} else if !errors.Is(err, fs.ErrNotExist) { // where the kernel has none
		return ""
	}
	began, err := beginning(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %d/%s", bytes.TrimSpace(boot), namespace, os.Getpid(), began)
})

// ended looks for a process, whose number another one may have by now.
func ended(process string) bool {
	number, began, ok := strings.Cut(process, "/")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil || pid <= 0 {
		return false
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // also where /proc hides those of others
		return true
	}
	now, err := beginning(pid)
	return err == nil && now != began
}

// beginning returns when a process has begun, in ticks since the boot of the machine.
func beginning(pid int) (ticks string, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name of the program comes second, in parentheses, and may have anything in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const after = 19 // field 22 of proc(5), of which two are cut off
	if len(fields) <= after {
		return "", fmt.Errorf("/proc/%d/stat has %d fields after the name, not more than %d", pid, len(fields), after)
	}
	return fields[after], nil
}
