package changelog

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// batch has one change of each form.
func batch() *entity.Batch {
	return &entity.Batch{
		First: 7, Committed: 99,
		Entities: []entity.BatchEntity{{ID: "a"}, {ID: "b"}},
		Records: []entity.Record{
			{Entity: 1, Seq: 1, Reading: entity.Reading{TS: 5000, Values: []entity.Sample{
				{Key: "f", Value: value.Float(1.5)},
				{Key: "i", Value: value.Int(-3)},
				{Key: "b", Value: value.Bool(true)},
				{Key: "s", Value: value.String("nul\x00é")},
				{Key: "j", Value: entity.ParseJSON([]byte(`[1,{"a":null}]`))},
			}}},
			{Entity: 0, Seq: 4, Reading: entity.Reading{TS: 10, Values: []entity.Sample{{Key: "f", Value: value.Int(1)}}}, Origin: entity.Origin{Source: "sum", Seq: 1 << 62}, Created: true},
			{Entity: 0, Reading: entity.Reading{TS: 20}, Origin: entity.Origin{Source: "sum", Seq: 7}, Edit: &entity.Edit{
				Revision: 3, Created: true, Typed: true, Type: "room",
				Attributes: []entity.AttributeEdit{
					{Section: entity.Desired, Attribute: entity.Attribute{Path: "/a/b", TS: 20, Value: value.String("on")}},
					{Section: entity.Reported, Attribute: entity.Attribute{Path: "/gone", TS: 20}},
				},
				Relations: []entity.RelationEdit{
					{Relation: entity.Relation{From: "a", Type: "in", To: "b", Properties: entity.ParseJSON([]byte(`{"since":1}`))}},
					{Relation: entity.Relation{From: "a", Type: "near", To: "c"}, Removed: true},
				},
			}},
			{Entity: 0, Reading: entity.Reading{TS: 25}, Command: &entity.Command{
				ID: "00000000001", Entity: "a", Name: "open", Request: value.Int(-5), Key: "k", By: "me", Parallel: true, State: entity.CommandFailed,
				Created: 1, Expires: 2, Timeout: 3, Sent: 4, Attempts: 5, Delivered: 6, Ended: 7,
				Progress: value.Float(0.5), Result: entity.ParseJSON([]byte(`{"a":[1]}`)), Error: "broken",
			}},
			{Entity: 1, Reading: entity.Reading{TS: 30}, Edit: &entity.Edit{Revision: 4, Deleted: true}},
		},
	}
}

func decode(data []byte, n int64) (list []entity.LoggedChange, err error) {
	list, _, err = decodeAll(data, n)
	return list, err
}

// decodeAll returns the sequences of the readings as well.
func decodeAll(data []byte, n int64) (list []entity.LoggedChange, seqs []uint64, err error) {
	err = Decode(data, 7, n, 99, func(c entity.LoggedChange, seq uint64) bool {
		list, seqs = append(list, c), append(seqs, seq)
		return true
	})
	return list, seqs, err
}

func TestEachFormOfChangeComesBack(t *testing.T) {
	b := batch()
	got, seqs, err := decodeAll(Append([]byte("before")[:0], b), int64(len(b.Records)))
	if err != nil || len(got) != len(b.Records) {
		t.Fatalf("%d changes, %v", len(got), err)
	}
	for i := range b.Records {
		r := &b.Records[i]
		want := entity.LoggedChange{
			Seq: b.First + uint64(i), Entity: b.Entities[r.Entity].ID, TS: r.TS, Values: r.Values, Origin: r.Origin, Edit: r.Edit, Command: r.Command, Committed: 99, Created: r.Created,
		}
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("change %d:\n got %+v\nwant %+v", i, got[i], want)
		}
		if seqs[i] != r.Seq {
			t.Errorf("change %d has the sequence %d, want %d", i, seqs[i], r.Seq)
		}
	}
}

func TestDecodingStopsWhenItIsToldTo(t *testing.T) {
	b, n := batch(), 0
	err := Decode(Append(nil, b), 7, int64(len(b.Records)), 99, func(entity.LoggedChange, uint64) bool { n++; return n < 2 })
	if err != nil || n != 2 {
		t.Errorf("%d changes, %v", n, err)
	}
}

func TestRowsOfOlderFormatsAreReadable(t *testing.T) {
	for _, old := range [][]byte{
		{1, 1, 1, 'a', 1, 1, 't', 0, 20, 1, 0, byte(value.KindBool), 1},
		{2, 1, 1, 'a', 1, 1, 't', aReading, 0, 20, 1, 0, byte(value.KindBool), 1},
		{6, 1, 1, 'a', 1, 1, 't', aReading, 0, 20, 0, 1, 0, byte(value.KindBool), 1},
	} {
		got, seqs, err := decodeAll(old, 1)
		if err != nil || len(got) != 1 || got[0].Entity != "a" || got[0].TS != 10 || got[0].Values[0].Value != value.Bool(true) || seqs[0] != 0 {
			t.Errorf("format %d: %+v, %v, %v", old[0], got, seqs, err)
		}
	}
}

func TestDamagedRowsAreFound(t *testing.T) {
	b := batch()
	row, n := Append(nil, b), int64(len(b.Records))
	for cut := range row {
		if _, err := decode(row[:cut], n); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if _, err := decode(append(slices.Clip(row), 0), n); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
	row[0] = format + 1
	if _, err := decode(row, n); !errors.Is(err, ErrDamaged) {
		t.Errorf("a format to come: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	b := batch()
	f.Add(Append(nil, b), int64(len(b.Records)))
	f.Add([]byte{1, 0, 0}, int64(0))
	f.Add([]byte{1, 1, 1, 'a', 1, 1, 't', 0, 20, 1, 0, byte(value.KindBool), 1}, int64(1))
	f.Add([]byte{2, 1, 1, 'a', 1, 1, 't', aComputed, 0, 20, 0, 5, 1, 0, byte(value.KindInt), 1}, int64(1))
	f.Add([]byte{3}, int64(1))
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		list, err := decode(data, min(n, 1000))
		if err == nil && int64(len(list)) != max(0, min(n, 1000)) {
			t.Fatalf("%d changes without an error, want %d", len(list), n)
		}
	})
}

func TestAPageEndsByItsBytes(t *testing.T) {
	const changes, size = 10, 200_000
	b := &entity.Batch{First: 1, Entities: []entity.BatchEntity{{ID: "a"}}}
	for i := range int64(changes) {
		b.Records = append(b.Records, entity.Record{Seq: uint64(i + 1), Reading: entity.Reading{TS: i, Values: []entity.Sample{{Key: "t", Value: value.String(strings.Repeat("x", size))}}}})
	}
	row := Append(nil, b)
	info := entity.StoreInfo{FirstChange: 1, LastChange: changes}
	pages := 0
	for after := uint64(0); after < changes; pages++ {
		list, err := Page(info, after, 512, func(take func([]byte, uint64, int64, int64) error) error { return take(row, 1, changes, 0) })
		if err != nil || len(list) == 0 || len(list) > pageBytes/size+1 || list[0].Seq != after+1 {
			t.Fatalf("after %d: %d changes, %v", after, len(list), err)
		}
		after = list[len(list)-1].Seq
	}
	if pages < 3 {
		t.Errorf("%d pages", pages)
	}
}
