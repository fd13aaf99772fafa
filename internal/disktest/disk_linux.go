package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// argument is the environment variable that tells the second process of a test its directory.
const argument = "GREENROOM_TEST_DISK"

// Small runs the rest of the test that calls it in a process of its own, which has a file system of
// so many bytes at the directory that is returned. It returns "" in the first process, when the
// other one has ended.
func Small(t *testing.T, bytes int) (dir string) {
	t.Helper()
	if dir = os.Getenv(argument); dir == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), argument+"="+t.TempDir())
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return ""
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal("make the mounts private:", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatal("mount a small file system:", err)
	}
	return dir
}

// TakeAll takes all that a disk has left, for a file at path.
func TakeAll(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{64 << 10, 4 << 10, 1} { // a file system gives whole pages
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
}
