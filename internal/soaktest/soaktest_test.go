package soaktest

import "testing"

func TestRoundsFollowTheVariable(t *testing.T) {
	for value, want := range map[string]int{"": 2, "1": 200} {
		t.Setenv(variable, value)
		if got := Rounds(t, 2, 200); got != want {
			t.Errorf("with %s=%q: %d rounds, want %d", variable, value, got, want)
		}
	}
}

func TestRoundsThatAreNoShortAndLongPanic(t *testing.T) {
	for _, bad := range [][2]int{{0, 1}, {2, 2}, {3, 2}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is accepted", bad)
				}
			}()
			Rounds(t, bad[0], bad[1])
		}()
	}
}
