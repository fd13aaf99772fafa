package entity_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// forgetful is a store whose disk costs nothing: what remains is the runtime.
type forgetful struct {
	entity.Store
	mu   sync.Mutex
	info entity.StoreInfo
}

func (s *forgetful) Info() entity.StoreInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

func (s *forgetful) Load(context.Context, string) (entity.Stored, error) {
	return entity.Stored{}, entity.ErrNotFound
}

func (s *forgetful) Entities(context.Context, entity.ListQuery) ([]entity.Stored, error) {
	return nil, nil
}

func (s *forgetful) Commit(_ context.Context, b *entity.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.LastChange += uint64(len(b.Records))
	for i := range b.Entities {
		b.Entities[i].Num = 1
	}
	return nil
}

func (s *forgetful) Relations(context.Context, entity.Relation, int) ([]entity.Relation, error) {
	return nil, nil
}

func (s *forgetful) OpenCommands(context.Context) ([]entity.OpenCommands, error) { return nil, nil }

func (s *forgetful) Online(context.Context, string, int) ([]entity.OnlineEntity, error) {
	return nil, nil
}

func (s *forgetful) SaveSeen(context.Context, []entity.SeenAt) error { return nil }

func (s *forgetful) Docs(context.Context, string, string, int) ([]entity.Doc, error) { return nil, nil }

func (s *forgetful) Close() error { return nil }

func threeKeys(ts int64) []entity.Reading {
	return []entity.Reading{{TS: ts, Values: []entity.Sample{
		{Key: "temperature", Value: value.Float(21.5 + float64(ts%10))}, {Key: "humidity", Value: value.Int(40)}, {Key: "on", Value: value.Bool(true)},
	}}}
}

func BenchmarkIngest(b *testing.B) {
	stores := map[string]func(testing.TB) entity.Store{
		"none": func(testing.TB) entity.Store {
			return &forgetful{info: entity.StoreInfo{Identity: "bench", FirstChange: 1, Generations: []entity.Generation{{ID: "bench"}}}}
		},
		"sqlite": func(t testing.TB) entity.Store {
			s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
	for _, store := range []string{"none", "sqlite"} {
		for _, entities := range []int{1, 1000} {
			b.Run(fmt.Sprintf("store=%s/entities=%d/keys=3", store, entities), func(b *testing.B) {
				sys := actor.NewSystem("bench")
				r, err := entity.Open(b.Context(), sys, stores[store](b), entity.Config{})
				if err != nil {
					b.Fatal(err)
				}
				ids := make([]string, entities)
				for i := range ids {
					ids[i] = fmt.Sprintf("sensor-%d", i)
				}
				var settled sync.WaitGroup
				done := func(err error) {
					if err != nil {
						b.Error(err)
					}
					settled.Done()
				}
				ts := int64(1_451_649_600_000)
				b.ReportAllocs()
				for b.Loop() {
					ts += 7
					settled.Add(1)
					if err := r.Ingest(b.Context(), ids[ts%int64(entities)], threeKeys(ts), 80, done); err != nil {
						b.Fatal(err)
					}
				}
				settled.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "readings/s")
				if err := errors.Join(r.Close(b.Context()), second(0, 0, shutdown(sys))); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func shutdown(sys *actor.System) error { return first(sys.Shutdown(context.Background())) }

// BenchmarkEntityMemory reports what a hot entity with three keys occupies.
func BenchmarkEntityMemory(b *testing.B) {
	const entities = 100_000
	for b.Loop() {
		sys := actor.NewSystem("bench")
		r, err := entity.Open(b.Context(), sys, &forgetful{info: entity.StoreInfo{Identity: "bench", FirstChange: 1, Generations: []entity.Generation{{ID: "bench"}}}}, entity.Config{})
		if err != nil {
			b.Fatal(err)
		}
		before := heapInUse()
		var settled sync.WaitGroup
		for i := range entities {
			settled.Add(1)
			if err := r.Ingest(b.Context(), fmt.Sprintf("sensor-%06d", i), threeKeys(int64(i)), 80, func(error) { settled.Done() }); err != nil {
				b.Fatal(err)
			}
		}
		settled.Wait()
		b.ReportMetric(float64(heapInUse()-before)/entities, "B/entity")
		if err := errors.Join(r.Close(b.Context()), shutdown(sys)); err != nil {
			b.Fatal(err)
		}
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// BenchmarkApply is what an entity does with a reading, without its way there:
// the control is the same for an entity that has no type.
func BenchmarkApply(b *testing.B) {
	for _, keys := range []int{3, 300} {
		for _, name := range []string{"control=untyped", "typed"} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, name), func(b *testing.B) {
				apply := entity.NewApplier(b, keys, name == "typed")
				ts := int64(1_451_649_600_000)
				b.ReportAllocs()
				for b.Loop() {
					ts++
					apply(ts)
				}
			})
		}
	}
}
