package entity_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func (s *stage) parse(payload string) []entity.Reading {
	s.t.Helper()
	readings, err := entity.ParseReadings([]byte(payload), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return readings
}

// values returns all of a history as integers, page by page.
func (s *stage) values(id, key string, limit int) (list []int64) {
	s.t.Helper()
	q := entity.HistoryQuery{ID: id, Key: key, Limit: limit}
	last := int64(0)
	for {
		points, next, err := s.History(s.t.Context(), q)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, p := range points {
			if p.TS < last {
				s.t.Fatalf("ts %d comes after %d", p.TS, last)
			}
			last = p.TS
			list = append(list, p.Value.Int())
		}
		if q.Cursor = next; next == "" {
			return list
		}
	}
}

func TestEachReadingWithoutATimeIsInTheHistoryInOrder(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := open(t, t.TempDir(), entity.Config{})
	settled := newSettlements(t)
	for i := range n {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", s.parse(fmt.Sprintf(`{"t":%d}`, i))[0]); err != nil {
			t.Fatal(err)
		}
	}
	settled.wait()
	if err := s.Write(t.Context(), "b", s.parse(`[{"t":0},{"t":1},{"t":2}]`), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for id, want := range map[string]int{"a": n, "b": 3} {
			list := s.values(id, "t", 777)
			if len(list) != want {
				t.Fatalf("%s: %d readings in the history, want %d", id, len(list), want)
			}
			for i, v := range list {
				if v != int64(i) {
					t.Fatalf("%s: %d is in the place of %d", id, v, i)
				}
			}
			if l := s.entity(id).Latest[0]; l.Value.Int() != int64(want-1) {
				t.Errorf("%s: the latest is %v", id, l)
			}
		}
		s = s.reopen(entity.Config{})
	}
}

func TestARepetitionOfADeliveryIsKeptOnce(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	write := func(once entity.Once, payload string) {
		t.Helper()
		if err := s.WriteOnce(t.Context(), "a", once, s.parse(payload), 0); err != nil {
			t.Fatal(err)
		}
	}
	token := entity.TokenOf("client", "7")
	write(entity.Once{Token: token, Fresh: true}, `{"t":1}`)
	for range 2 { // also after a restart
		write(entity.Once{Token: token}, `{"t":1}`)
		if got := fmt.Sprint(s.values("a", "t", 10)); got != "[1]" {
			t.Fatalf("the history is %s", got)
		}
		s = s.reopen(entity.Config{})
	}
	write(entity.Once{Token: token, Fresh: true}, `{"t":2}`) // the packet id is used again
	write(entity.Once{Token: entity.TokenOf("client", "8")}, `{"t":3}`)
	write(entity.Once{}, `{"t":4}`)
	write(entity.Once{}, `{"t":4}`)
	if got := fmt.Sprint(s.values("a", "t", 10)); got != "[1 2 3 4 4]" {
		t.Errorf("the history is %s", got)
	}
}

func TestAReadingIsKnownByTheNumberOfItsDevice(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	for range 2 {
		for _, payload := range []string{
			`{"seq":1,"values":{"t":1}}`, `[{"seq":2,"values":{"t":2}},{"seq":1,"values":{"t":1}}]`, `{"ts":5,"seq":3,"values":{"u":3}}`,
		} {
			if err := s.Write(t.Context(), "a", s.parse(payload), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(s.values("a", "t", 10), s.values("a", "u", 10)); got != "[1 2] [3]" {
			t.Fatalf("the history is %s", got)
		}
		s = s.reopen(entity.Config{})
	}
	if err := s.Write(t.Context(), "b", s.parse(`{"seq":1,"values":{"t":1}}`), 0); err != nil {
		t.Fatal(err)
	}
	if got := s.values("b", "t", 10); len(got) != 1 {
		t.Errorf("the number of another entity: %v", got)
	}
}

// A refused delivery is not remembered: its repetition may be taken.
func TestARefusedDeliveryIsNoRepetition(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	s.types(`{"id":"T","telemetry":{"t":{"type":"number","max":10}}}`)
	s.edit("a", entity.Edits{Type: new("T")})
	once := entity.Once{Token: entity.TokenOf("x")}
	if err := s.WriteOnce(t.Context(), "a", once, s.parse(`{"t":11}`), 0); err == nil {
		t.Fatal("taken")
	}
	if err := s.WriteOnce(t.Context(), "a", once, s.parse(`{"t":1}`), 0); err != nil {
		t.Fatal(err)
	}
	if got := s.values("a", "t", 10); len(got) != 1 {
		t.Errorf("the history is %v", got)
	}
}

func TestAPageOfAHistoryEndsWithinATime(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	list := s.parse(`[{"t":0},{"t":1},{"t":2},{"t":3}]`)
	if err := s.Write(t.Context(), "a", list, 0); err != nil {
		t.Fatal(err)
	}
	var got []int64
	q := entity.HistoryQuery{ID: "a", Key: "t", Limit: 3, Descending: true}
	for {
		points, next, err := s.History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			got = append(got, p.Value.Int())
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[3 2 1 0]" {
		t.Errorf("descending: %v", got)
	}
	for _, cursor := range []string{"-", "1-", "1-!", "x-1-1", "-1-1"} {
		q.Cursor = cursor
		if _, _, err := s.History(t.Context(), q); err == nil {
			t.Errorf("cursor %q is taken", cursor)
		}
	}
}

// The server's own times do not go back over a restart with a clock that has been set
// back, and say so.
func TestTimesGoOnWhereTheLastCommitWas(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	ahead := time.Now().Add(time.Hour).UnixMilli()
	s.store.onCommit(func(_ context.Context, b *entity.Batch) error { // as if the clock had been ahead then
		b.Committed = ahead
		return nil
	})
	if err := s.Write(t.Context(), "a", s.parse(`{"t":1}`), 0); err != nil {
		t.Fatal(err)
	}
	s = s.reopen(entity.Config{})
	if err := s.Write(t.Context(), "a", s.parse(`{"t":2}`), 0); err != nil {
		t.Fatal(err)
	}
	if l := s.entity("a").Latest[0]; l.TS < ahead || l.TS > ahead+3_600_000 || l.Value != value.Int(2) {
		t.Errorf("the latest is %+v, want one from %d on", l, ahead)
	}
	if s.logs.count("the clock has been set back; the server's own times go on from where they were, at half of the speed until it has caught up") == 0 {
		t.Error("nothing was logged")
	}
}
