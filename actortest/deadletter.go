package actortest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// ExpectDeadLetter settles and takes the oldest dead letter that no expectation has
// taken yet. The test fails if there is none, or if its message is not a T.
func ExpectDeadLetter[T any](k *Kit) actor.DeadLetter {
	k.t.Helper()
	want := reflect.TypeFor[T]()
	letters := k.newLetters()
	if len(letters) == 0 {
		k.t.Fatalf("ExpectDeadLetter: there is none\n  want: a message of type %s%s", want, k.circumstances(actor.PID{}))
	}
	d := letters[0]
	if _, ok := d.Message.(T); !ok {
		k.t.Fatalf("ExpectDeadLetter: the message is of another type\n  want: a message of type %s\n  got:  %s%s", want, showLetter(d), showLetters("after it", letters[1:]))
	}
	k.lettersSeen++
	return d
}

// ExpectNoDeadLetter settles, and fails the test if there is a dead letter that no
// expectation has taken.
func (k *Kit) ExpectNoDeadLetter() {
	k.t.Helper()
	if letters := k.newLetters(); len(letters) > 0 {
		k.t.Fatalf("ExpectNoDeadLetter: there are %d%s", len(letters), showLetters("dead letters", letters))
	}
}

// newLetters returns the dead letters that no expectation has taken, oldest first.
func (k *Kit) newLetters() []actor.DeadLetter {
	k.t.Helper()
	k.Settle()
	total := k.sys.Stats().DeadLetters
	letters := k.sys.DeadLetters()
	slices.Reverse(letters)
	kept := uint64(len(letters))
	if lost := total - kept; lost > k.lettersSeen {
		k.t.Fatalf("there were %d dead letters, of which the system keeps the latest %d: %d that the test has not looked at are lost; look earlier",
			total, kept, lost-k.lettersSeen)
	}
	return letters[k.lettersSeen-(total-kept):]
}

func showLetter(d actor.DeadLetter) string {
	return fmt.Sprintf("%s to %s from %s: %s", show(d.Message), d.To, d.From, d.Reason)
}

func showLetters(title string, letters []actor.DeadLetter) string {
	if len(letters) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s:", title)
	for _, d := range letters {
		fmt.Fprintf(&b, "\n    %s", showLetter(d))
	}
	return b.String()
}
