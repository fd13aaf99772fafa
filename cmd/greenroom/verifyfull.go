package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// maxFill bounds how much of a disk verify fills: other servers may use it too.
const maxFill = 1 << 30

// wait waits for a random time. With --full, it fills the disk after half of it, and checks that
// reads still succeed.
func (v *verifier) wait(ctx context.Context, after time.Duration) error {
	if !v.options.full {
		return pause.For(ctx, after)
	}
	if err := pause.For(ctx, after/2); err != nil {
		return err
	}
	v.filled = filepath.Join(v.place.dir, "filler")
	if err := fill(v.filled); err != nil {
		return err
	}
	if err := pause.For(ctx, after/2); err != nil {
		return err
	}
	if err := v.child.client.get(ctx, "/v1/entities?limit=1", nil); err != nil {
		return fmt.Errorf("read while the disk is full: %w", err)
	}
	return nil
}

// fill writes a file until the disk is full.
func fill(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, 64<<10)
	for n := 0; n < maxFill; n += len(block) {
		if _, err := f.Write(block); err != nil {
			return nil // which is the goal
		}
	}
	return usagef("--full fills the disk of --data, which must have less than %d MiB free: mount a small file system for it", maxFill>>20)
}

// restartOnFullDisk restarts the server while its disk is full, kills it, and removes the file that
// fills the disk.
func (v *verifier) restartOnFullDisk(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if v.child, err = startChild(ctx, v.place, "--seal-after", verifySealAfter.String()); err != nil {
		return fmt.Errorf("restart while the disk is full: %w", err)
	}
	if err := v.child.kill(); err != nil {
		return err
	}
	path := v.filled
	v.filled = ""
	return os.Remove(path)
}
