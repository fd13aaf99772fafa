package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

// storeAddress is the address of a store: a directory, or a PostgreSQL database.
type storeAddress struct {
	dir string // of SQLite, "" for PostgreSQL
	url string // of PostgreSQL, with the password
}

// CheckStore returns nil if address is valid for Config.Store, without opening the store. The error
// wraps ErrStoreAddress, lists the permitted forms, and contains no password.
func CheckStore(address string) error {
	_, err := parseStore(address)
	return err
}

// StoreName returns the address of a store without a password, for messages and logs.
func StoreName(address string) string {
	a, err := parseStore(address)
	if err != nil || a.dir == "" {
		return postgres.Redact(address)
	}
	return a.dir
}

func parseStore(address string) (storeAddress, error) {
	if postgres.IsURL(address) {
		return storeAddress{url: address}, nil
	}
	dir, isURL := strings.CutPrefix(address, "sqlite:")
	if isURL {
		dir = strings.TrimPrefix(dir, "//")
	}
	if scheme, _, ok := strings.Cut(dir, "://"); ok {
		return storeAddress{}, fmt.Errorf("%w: it must be a directory, sqlite:DIR or postgres://user@host/database, and not begin with %.20q", ErrStoreAddress, path.Base(scheme)+"://")
	}
	if dir == "" {
		return storeAddress{}, fmt.Errorf("%w: it must be a directory, sqlite:DIR or postgres://user@host/database", ErrStoreAddress)
	}
	return storeAddress{dir: dir}, nil
}

// openStore opens the store at an address. The options are for SQLite; a PostgreSQL schema is
// always created.
func openStore(ctx context.Context, address string, log *slog.Logger, opts sqlite.Options) (entity.Store, error) {
	a, err := parseStore(address)
	if err != nil {
		return nil, err
	}
	if a.dir == "" {
		s, err := postgres.Open(ctx, a.url, postgres.Options{Logger: log, ChangeLogAge: opts.ChangeLogAge, SealAfter: opts.SealAfter})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	opts.Logger = log
	s, err := sqlite.Open(ctx, a.dir, opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Examine opens the store at an address, which no server may use, reads all of it except the
// history, and calls found for each damage or contradiction. The error is that of opening or
// reading the store; it wraps [os.ErrNotExist] for a directory without one.
func Examine(ctx context.Context, address string, log *slog.Logger, found func(error)) (read entity.Examined, err error) {
	s, err := openStore(ctx, address, log, sqlite.Options{Existing: true, SealAfter: -1})
	if err != nil {
		return read, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s, ok := s.(interface {
		Check(ctx context.Context) error
	}); ok {
		if err := s.Check(ctx); err != nil {
			found(err)
		}
	}
	return entity.Examine(ctx, s, found)
}
