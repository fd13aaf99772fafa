package sqlitedb

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReserveBytes is the size of a Reserve: enough for the index that SQLite keeps of a WAL of
// 32 000 pages.
const ReserveBytes = 256 << 10

// Reserve is a file that holds room on the disk of a database, so that it can be opened when the
// disk is full. To open it, SQLite needs 32 KB beside the WAL for each 4096 pages in it, which were
// not all there before: a commit that the full disk refused may have left pages in the WAL.
//
// Its methods are not safe for concurrent use.
type Reserve struct {
	path     string
	full     bool // the file is as large as it should be
	released bool // the file was removed, because the disk was full
}

// NewReserve returns the reserve in a file, which Fill creates.
func NewReserve(path string) *Reserve { return &Reserve{path: path} }

// Open calls open, which opens the database at path. If the disk has no room for that, it calls undo, which closes what
// open has opened, and does so again in the room of the reserve; it keeps what is left of that for the next time. An
// error that is there because the disk is full is one for which IsFull is true.
func (r *Reserve) Open(path string, open, undo func() error) error {
	err := open()
	if IsFull(err) {
		_ = undo() // it fails where opening has failed
		released, removal := r.release()
		if !released {
			return fmt.Errorf("opening needs %d KiB on the disk of %s: %w", ReserveBytes>>10, path, errors.Join(err, removal))
		}
		err = open()
		r.Refill()
	}
	if err == nil {
		r.Fill(SpareRoom)
	}
	return err
}

// release removes the file, and reports whether that gave room back.
func (r *Reserve) release() (bool, error) {
	info, err := os.Stat(r.path)
	if err == nil {
		err = os.Remove(r.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.full, r.released = false, true
	return info.Size() > 0, nil
}

// Fill makes the file as large as it should be, if that leaves so many bytes of the disk to others.
func (r *Reserve) Fill(spare int64) {
	if r.full {
		return
	}
	if free, err := Free(filepath.Dir(r.path)); err == nil && free < spare+ReserveBytes {
		return
	}
	r.extend()
}

// Refill makes a file that was released as large as the disk allows.
func (r *Reserve) Refill() {
	if r.released && !r.full {
		r.extend()
	}
}

func (r *Reserve) extend() { r.full = extend(r.path, ReserveBytes) == nil }

// extend makes a file at least so large. After an error, it is as large as was possible.
func extend(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	block := make([]byte, 4096)
	_, _ = rand.Read(block) // never fails; a file system might keep zeros without room for them
	for left := size - info.Size(); left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block[:min(left, int64(len(block)))]); err != nil {
			return err
		}
	}
	return f.Sync()
}
