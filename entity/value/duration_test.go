package value

import (
	"math/rand/v2"
	"testing"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]int64{
		"90s": 90_000, "1h30m": 5_400_000, "7d": 7 * dayMillis, "1w": 7 * dayMillis, "1w2d": 9 * dayMillis, "250ms": 250, "1.5h": 5_400_000, "0.25s": 250,
		"0s": 0, "-5m": -300_000, "1w1d1h1m1s1ms": 8*dayMillis + hourMillis + minuteMillis + 1001,
	} {
		if got, ok := ParseDuration(text); !ok || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "5", "m", "5m5m", "5m1h", "1.5ms", "1.s", ".5s", "1..5s", "5 m", "5M", "5us", "+5m", "99999999999999w", "9223372036854775807ms", "1h-30m"} {
		if got, ok := ParseDuration(text); ok {
			t.Errorf("%q is %d, and no duration", text, got)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		ms := r.Int64N(1<<r.IntN(50) + 1)
		if text := string(AppendDuration(nil, ms)); !is(text, ms) || ms > 0 && !is("-"+text, -ms) {
			t.Errorf("%d is written %s", ms, text)
		}
	}
}

func is(text string, ms int64) bool {
	got, ok := ParseDuration(text)
	return ok && got == ms
}

func FuzzDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "1.5d", "-2w", "9999999999999999999s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, ok := ParseDuration(text)
		if !ok {
			return
		}
		if again := string(AppendDuration(nil, ms)); !is(again, ms) {
			t.Errorf("%q is %d, which is written %q", text, ms, again)
		}
		ScanTime(text)
	})
}
