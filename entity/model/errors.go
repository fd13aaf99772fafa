package model

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid says that a type or a DTDL document is not valid. The text says where, and what is
	// expected.
	ErrInvalid = errors.New("invalid type")

	// ErrUnknown says that a type extends or uses one that does not exist.
	ErrUnknown = errors.New("unknown type")

	// ErrCycle says that a type extends or contains itself through others, which the text names.
	ErrCycle = errors.New("types in a cycle")

	// ErrMismatch says that a value, an attribute or a relation does not agree with the type.
	ErrMismatch = errors.New("does not agree with the type")
)

func invalid(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrInvalid, fmt.Sprintf(format, args...))
}
