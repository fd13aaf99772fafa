//go:build !linux && !darwin

package sqlitedb

import "errors"

// Free returns an error: how much room a disk has is not known here.
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }
