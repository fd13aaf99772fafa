package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity/sqlite"
)

// Compact packs all history of the SQLite store in a directory, which no server uses, and gives the
// space that gets free back to the disk. It tells what the store took before and after. The error
// wraps [os.ErrNotExist] for a directory without a store.
func Compact(ctx context.Context, dir string) (before, after *sqlite.Usage, err error) {
	s, err := sqlite.Open(ctx, dir, sqlite.Options{Existing: true, SealAfter: -1})
	if err != nil {
		return nil, nil, err
	}
	usage := func() (*sqlite.Usage, error) {
		u, err := sqlite.ReadUsage(ctx, dir)
		return &u, err
	}
	if before, err = usage(); err == nil {
		// What could be sealed is, and its space is given back, also where something is damaged.
		if err = s.Compact(ctx); context.Cause(ctx) == nil {
			err = errors.Join(err, s.Shrink(ctx))
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, nil, fmt.Errorf("compact %s: %w", dir, err)
	}
	after, err = usage()
	return before, after, err
}
