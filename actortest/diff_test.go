package actortest_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actortest"
)

type inner struct {
	Name string
	tags []string
}

type outer struct {
	ID    int
	Inner *inner
	List  []inner
	Map   map[string]int
	Any   any
	At    time.Time
	F     func()
	next  *outer
	float float64
}

func TestDiffNamesThePathOfEachDifference(t *testing.T) {
	ring := func(id int) *outer {
		o := &outer{ID: id}
		o.next = &outer{next: o}
		return o
	}
	err := errors.New("x")
	now := time.Now()
	ch := make(chan int)
	tests := []struct {
		name      string
		want, got any
		lines     []string
	}{
		{"equal numbers", 1, 1, nil},
		{"nil", nil, nil, nil},
		{"nil and something", nil, 1, []string{"want nil, got 1"}},
		{"numbers", 1, 2, []string{"want 1, got 2"}},
		{"types", 1, "1", []string{"want a int, got a string"}},
		{"pointers to equals", &inner{"a", nil}, &inner{"a", []string{}}, nil},
		{
			"deep",
			outer{Inner: &inner{"a", []string{"x", "y"}}},
			outer{Inner: &inner{"b", []string{"x", "z"}}},
			[]string{`Inner.Name: want "a", got "b"`, `Inner.tags[1]: want "y", got "z"`},
		},
		{"nil pointer", outer{Inner: &inner{"a", nil}}, outer{}, []string{`Inner: want &actortest_test.inner{Name:a tags:[]}, got (*actortest_test.inner)(nil)`}},
		{"lengths", []int{1, 2}, []int{1}, []string{"want 2 elements, got 1 element"}},
		{
			"maps",
			map[string]int{"a": 1, "b": 2, "c": 3},
			map[string]int{"b": 3, "c": 3, "d": 4},
			[]string{`["a"]: want 1, missing`, `["b"]: want 2, got 3`, `["d"]: not wanted, got 4`},
		},
		{"interfaces", outer{Any: 1}, outer{Any: "1"}, []string{"Any: want a int, got a string"}},
		{"the same instant in two zones", outer{At: now}, outer{At: now.In(time.FixedZone("x", 3600))}, nil},
		{
			"instants",
			outer{At: time.Unix(0, 0).UTC()},
			outer{At: time.Unix(1, 0).UTC()},
			[]string{"At: want 1970-01-01 00:00:00 +0000 UTC, got 1970-01-01 00:00:01 +0000 UTC"},
		},
		{"durations", time.Second, time.Minute, []string{"want 1s, got 1m0s"}},
		{"functions", outer{F: func() {}}, outer{F: func() {}}, []string{"F: functions cannot be compared; take the message with ExpectMsg"}},
		{"NaN", outer{float: math.NaN()}, outer{float: math.NaN()}, nil},
		{"NaN and a number", math.NaN(), 1.0, []string{"want NaN, got 1"}},
		{"rings", ring(1), ring(1), nil},
		{"different rings", ring(1), ring(2), []string{"ID: want 1, got 2"}},
		{"the same error", err, err, nil},
		{"channels", ch, ch, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := actortest.Diff(test.want, test.got); !slices.Equal(got, test.lines) {
				t.Errorf("got  %q\nwant %q", got, test.lines)
			}
		})
	}
}

func TestALongDiffIsCut(t *testing.T) {
	lines := actortest.Diff(make([]int, 100), slices.Repeat([]int{1}, 100))
	if len(lines) != 11 || lines[10] != "… and 90 more" {
		t.Errorf("got %q", lines)
	}
}
