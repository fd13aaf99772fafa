package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

// ReadUsage returns what the store at an address contains and how much space that takes, even while
// a server uses it. The error wraps [os.ErrNotExist] for a directory without a store, and
// ErrStoreAddress, sqlite.ErrSchema or postgres.ErrSchema.
func ReadUsage(ctx context.Context, address string) (entity.Usage, error) {
	a, err := parseStore(address)
	if err != nil {
		return entity.Usage{}, err
	}
	if a.dir == "" {
		return postgres.ReadUsage(ctx, a.url)
	}
	return sqlite.ReadUsage(ctx, a.dir)
}

// Compact packs all history of the store at an address, and returns the freed space to the disk, as
// far as the store can. No server may use the store. It returns the usage before and after. The
// error wraps [os.ErrNotExist] for a directory without a store; a PostgreSQL schema is created.
func Compact(ctx context.Context, address string, log *slog.Logger) (before, after entity.Usage, err error) {
	s, err := openStore(ctx, address, log, sqlite.Options{Existing: true, SealAfter: -1})
	if err != nil {
		return before, after, err
	}
	if before, err = ReadUsage(ctx, address); err == nil {
		// Whatever can be sealed is sealed, and its space is freed, even if something is damaged.
		if err = s.Compact(ctx); context.Cause(ctx) == nil {
			if s, ok := s.(*sqlite.Store); ok {
				err = errors.Join(err, s.Shrink(ctx))
			}
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return before, after, fmt.Errorf("compact %s: %w", StoreName(address), err)
	}
	after, err = ReadUsage(ctx, address)
	return before, after, err
}
