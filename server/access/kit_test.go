package access

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

var quiet = slog.New(slog.DiscardHandler)

// onEachStore runs a test on SQLite and on PostgreSQL. open opens the same store again.
func onEachStore(t *testing.T, test func(t *testing.T, open func() *entity.Runtime)) {
	t.Helper()
	stores := map[string]func(t *testing.T) func() (entity.Store, error){
		"sqlite": func(t *testing.T) func() (entity.Store, error) {
			dir := t.TempDir()
			return func() (entity.Store, error) { return sqlite.Open(t.Context(), dir, sqlite.Options{}) }
		},
		"postgres": func(t *testing.T) func() (entity.Store, error) {
			address := pgtest.Database(t)
			return func() (entity.Store, error) {
				return postgres.Open(t.Context(), address, postgres.Options{Logger: quiet})
			}
		},
	}
	for name, on := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := on(t)
			var last *entity.Runtime
			shut := func() {
				if last != nil {
					_ = last.Close(context.Background())
				}
			}
			t.Cleanup(func() { shut() })
			test(t, func() *entity.Runtime {
				shut()
				store, err := open()
				if err != nil {
					t.Fatal(err)
				}
				system := actor.NewSystem("access", actor.WithLogger(quiet))
				t.Cleanup(func() { _, _ = system.Shutdown(context.Background()) })
				if last, err = entity.Open(t.Context(), system, store, entity.Config{Logger: quiet}); err != nil {
					t.Fatal(err)
				}
				return last
			})
		})
	}
}

// memory is a Store for tests that are not about stores.
type memory struct{ docs map[string]entity.Doc }

func newMemory() *memory { return &memory{docs: map[string]entity.Doc{}} }

func (m *memory) Docs(_ context.Context, kind string) (list []entity.Doc, err error) {
	for _, d := range m.docs {
		if d.Kind == kind {
			list = append(list, d)
		}
	}
	return list, nil
}

func (m *memory) Doc(_ context.Context, kind, id string) (entity.Doc, error) {
	d, ok := m.docs[kind+"/"+id]
	if !ok {
		return d, entity.ErrNotFound
	}
	return d, nil
}

func (m *memory) PutDoc(_ context.Context, kind, id string, body []byte, condition string) (entity.Doc, error) {
	if _, ok := m.docs[kind+"/"+id]; ok && condition == entity.IfNone {
		return entity.Doc{}, entity.ErrConflict
	}
	d := entity.Doc{Kind: kind, ID: id, Body: body}
	m.docs[kind+"/"+id] = d
	return d, nil
}

func (m *memory) DeleteDoc(_ context.Context, kind, id, _ string) error {
	delete(m.docs, kind+"/"+id)
	return nil
}

// openBook opens a Book, which is closed at the end of the test.
func openBook(t *testing.T, store Store) *Book {
	t.Helper()
	b, err := Open(t.Context(), store, Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// guarded opens a Book that has an admin, and returns the admin's token.
func guarded(t *testing.T, store Store) (*Book, string) {
	t.Helper()
	b := openBook(t, store)
	return b, create(t, b, &Spec{Name: "root", Grants: []Grant{{Role: Admin}}})
}

func create(t *testing.T, b *Book, s *Spec) string {
	t.Helper()
	token, _, err := b.Create(t.Context(), s)
	if err != nil {
		t.Fatalf("Create %q: %v", s.Name, err)
	}
	return token
}

// somewhere is an address.
var somewhere = netip.MustParseAddr("192.0.2.1")

func login(t *testing.T, b *Book, a Attempt) (*Principal, error) {
	t.Helper()
	if !a.Address.IsValid() {
		a.Address = somewhere
	}
	return b.Login(t.Context(), &a)
}
