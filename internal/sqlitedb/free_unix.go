//go:build linux || darwin

package sqlitedb

import "syscall"

// Free returns how many bytes a file in dir may take of its disk.
func Free(dir string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // Bsize is an int32 on some systems; a disk has less than 8 EiB
}
