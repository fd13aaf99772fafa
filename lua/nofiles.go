package lua

import "io/fs"

// noFiles is a path on which there is nothing.
type noFiles struct{}

// Open returns fs.ErrNotExist.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
