package series

import (
	"errors"
	"testing"
	"time"
)

// FuzzParse reads what a query has as text: a step, a fill, a function, a span.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "1h", "90s", "15minute", "day", "3month", "7hour", "null", "linear", "-1.5e3", "p99.9", "rate", "90d12h", "1d", "99999999999d", "p", "0", "9223372036854775807ns"} {
		f.Add(text, int64(1_700_000_000_000))
	}
	brussels, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, ts int64) {
		ts %= 253_402_300_800_000
		g, err := ParseGrid(text, ts, brussels)
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("grid: %v", err)
		}
		if err == nil {
			if start, end := g.Bucket(ts); start > ts || end <= ts {
				t.Errorf("%q: %d is not in [%d, %d)", text, ts, start, end)
			}
			if again, err := ParseGrid(g.String(), ts, brussels); err != nil || again.String() != g.String() {
				t.Errorf("%q is %q, which is %q, %v", text, g, again, err)
			}
		}
		if fill, err := ParseFill(text); err == nil && fill.check() != nil || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("fill: %v, %v", fill, err)
		}
		if fn, err := ParseFunc(text); err == nil && fn.check() != nil || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("function: %v, %v", fn, err)
		} else if again, err2 := ParseFunc(string(fn)); err == nil && (err2 != nil || again != fn) {
			t.Errorf("%q is %q, which is %q, %v", text, fn, again, err2)
		}
		if s, err := ParseSpan(text); err == nil {
			if again, err := ParseSpan(s.String()); err != nil || again != s {
				t.Errorf("%q is %v, which is %v, %v", text, s, again, err)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("span: %v", err)
		}
	})
}
