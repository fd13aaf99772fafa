package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// replaceMappings replaces a mapping by ones that multiply by 1, 2, 3 and so on, and gives each a
// value.
func (v *verifier) replaceMappings(ctx context.Context, round int, begun func()) tally {
	return until(begun, func(n int64) error {
		statement := fmt.Sprintf("insert into %s select %s.factor * %d as product", verifyID(round, "changed"), verifyID(round, "source"), n+1)
		condition := []string{"If-Match", "*"}
		if n == 0 {
			condition = []string{"If-None-Match", "*"}
		}
		if err := v.child.client.do(ctx, "PUT", "/v1/mappings/"+verifyID(round, "changing"), "text/plain", statement, nil, condition...); err != nil {
			return err
		}
		return v.putFactor(ctx, round, n+1, n+1)
	})
}

// putFactor writes a reading of the source of the mappings.
func (v *verifier) putFactor(ctx context.Context, round int, ts, n int64) error {
	body := fmt.Sprintf(`{"ts":%d,"values":{"factor":%d}}`, ts, n)
	return v.child.client.do(ctx, "POST", entityPath(verifyID(round, "source"))+"/telemetry", "application/json", body, nil)
}

// compareReplaced compares the mapping in force with those that were put, waits until a new value of
// the source has gone through it, and compares all values with those that a mapping could have
// written.
func (v *verifier) compareReplaced(ctx context.Context, round int, l *load) (o outcome, err error) {
	var mapped struct{ Text string }
	if err := v.child.client.get(ctx, "/v1/mappings/"+verifyID(round, "changing"), &mapped); isMissing(err) {
		return judgeLast(-1, l.mappings), nil
	} else if err != nil {
		return o, err
	}
	_, text, _ := strings.Cut(mapped.Text, " * ")
	factor, err := strconv.ParseInt(strings.TrimSuffix(text, " as product"), 10, 64)
	if err != nil {
		return o, fmt.Errorf("the statement of a mapping is %q: %w", mapped.Text, err)
	}
	o = judgeLast(factor-1, l.mappings)
	result := verifyID(round, "changed")
	const value = 1_000_003
	if err := v.putFactor(ctx, round, time.Now().UnixMilli(), value); err != nil {
		return o, err
	}
	var wait settling
	for {
		n, ok, err := v.latest(ctx, result, "product")
		if err != nil {
			return o, err
		}
		if ok && n == value*factor {
			break
		}
		if !wait.more(ctx, n) {
			o.lost++
			return o, nil
		}
	}
	points, err := v.points(ctx, result, "product")
	if err != nil {
		return o, err
	}
	for _, p := range points[:len(points)-1] {
		if by := p.Value / max(p.TS, 1); p.Value != p.TS*by || by < 1 || by > factor {
			o.invented++
		}
	}
	return o, nil
}

// verifyKeptDays is how long the values of the key "trimmed" are kept.
const verifyKeptDays = 3

// trim writes readings that are too old to be kept, with odd numbers, and others, with even ones.
func (v *verifier) trim(ctx context.Context, round int, begun func()) tally {
	now := time.Now()
	recent, old := now.Add(-time.Hour).UnixMilli(), now.AddDate(0, 0, -2*verifyKeptDays).UnixMilli()
	return until(begun, func(n int64) error {
		if n%50 == 25 {
			if err := v.child.client.do(ctx, "POST", "/v1/retention", "", "", nil); err != nil {
				return err
			}
		}
		ts := recent + n
		if n%2 == 1 {
			ts = old + n
		}
		body := fmt.Sprintf(`{"ts":%d,"values":{"trimmed":%d}}`, ts, n)
		return v.child.client.do(ctx, "POST", entityPath(verifyID(round, "trimmed"))+"/telemetry", "application/json", body, nil)
	})
}

// compareTrimmed waits until the old values are gone, and compares the others with what was written.
func (v *verifier) compareTrimmed(ctx context.Context, round int, l *load) (o outcome, err error) {
	var wait settling
	for {
		if err := v.child.client.do(ctx, "POST", "/v1/retention", "", "", nil); err != nil {
			return o, err
		}
		points, err := v.points(ctx, verifyID(round, "trimmed"), "trimmed")
		if err != nil && !isMissing(err) {
			return o, err
		}
		there, old := make([]int64, 0, len(points)), int64(0)
		for _, p := range points {
			if p.Value%2 == 1 {
				old++
			}
			there = append(there, p.Value/2)
		}
		even := func(n int64) int64 { return (n + 1) / 2 } // of the first n
		if old == 0 {
			return judge(there, even(l.trimmed.sent), even(l.trimmed.acked)), nil
		}
		if !wait.more(ctx, old) {
			return outcome{acknowledged: even(l.trimmed.acked), invented: old}, nil
		}
	}
}
