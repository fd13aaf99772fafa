package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

const (
	// kindSession is the kind of the sessions' documents, which are keyed by the hash of what is in the cookie.
	kindSession = "browser-session"

	// keepEvery is how often the store is told that a session is used. A session that is used less often may end so
	// much earlier after a restart.
	keepEvery = time.Hour

	// keepWithin bounds a write of a session. It may be committed later.
	keepWithin = 2 * time.Second
)

// keptSession is the stored form of a session.
type keptSession struct {
	Who      string `json:"who"`
	Identity string `json:"identity"` // a namesake who is made later has another one
	Used     int64  `json:"used_ms"`
}

// keep puts a session into the store, if that has the version that etag says: one that was ended
// must not come back. One that cannot be kept ends with the server.
func (s *sessions) keep(ctx context.Context, of *session, etag string) {
	if s.store == nil || of.who.Name() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	s.mu.Lock()
	used := of.used
	s.mu.Unlock()
	body, err := json.Marshal(keptSession{of.who.Name(), of.who.Identity(), used.UnixMilli()})
	var d entity.Doc
	if err == nil {
		d, err = s.store.PutDoc(ctx, kindSession, hex.EncodeToString(of.hash[:]), body, etag)
	}
	switch {
	case err == nil:
		s.mu.Lock()
		of.kept, of.etag = used, d.ETag()
		s.mu.Unlock()
	case !errors.Is(err, entity.ErrNotFound): // then it has ended
		s.log.LogAttrs(ctx, slog.LevelWarn, "a login ends with the server, since it cannot be stored", slog.String("who", of.who.Name()), slog.Any("error", err))
	}
}

// forget removes a session from the store.
func (s *sessions) forget(ctx context.Context, hash [sha256.Size]byte) error {
	if s.store == nil {
		return nil
	}
	if err := s.store.DeleteDoc(ctx, kindSession, hex.EncodeToString(hash[:]), ""); err != nil && !errors.Is(err, entity.ErrNotFound) {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// drop ends a session that nobody asks to end. It is bounded in time.
func (s *sessions) drop(hash [sha256.Size]byte) {
	ctx, cancel := context.WithTimeout(context.Background(), keepWithin)
	defer cancel()
	_ = s.end(ctx, hash) // one that stays in the store is not taken up, since its principal or its time is over
}

// open takes up the sessions of the server before. It returns those that are over, for clear.
func (s *sessions) open(ctx context.Context, book *access.Book) (over [][sha256.Size]byte, err error) {
	docs, err := s.store.Docs(ctx, kindSession)
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	var all []*session
	for i := range docs {
		var kept keptSession
		var hash [sha256.Size]byte
		if n, err := hex.Decode(hash[:], []byte(docs[i].ID)); err != nil || n != len(hash) {
			return nil, fmt.Errorf("read the sessions: %q is none", docs[i].ID)
		}
		if err := json.Unmarshal(docs[i].Body, &kept); err != nil {
			return nil, fmt.Errorf("read the sessions: %w", err)
		}
		used := time.UnixMilli(kept.Used)
		who, ok := book.Find(kept.Who)
		if !ok || who.Identity() != kept.Identity || time.Since(used) > sessionIdle {
			over = append(over, hash)
			continue
		}
		all = append(all, &session{hash: hash, who: who, used: used, kept: used, etag: docs[i].ETag()})
	}
	slices.SortFunc(all, func(a, b *session) int { return a.used.Compare(b.used) })
	for _, of := range all {
		if !s.add(of) {
			over = append(over, of.hash)
		}
	}
	return over, nil
}

// clear removes sessions from the store that are over.
func (s *sessions) clear(ctx context.Context, over [][sha256.Size]byte) {
	for _, hash := range over {
		if s.forget(ctx, hash) != nil {
			return // the next server tries again
		}
	}
}
