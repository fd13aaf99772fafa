package remote

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// What the frames of a conversation carry that is not bytes of a user's message, as the first release
// has written it. The frames themselves are in remote/internal/session/testdata. None of this changes:
// what is new gets a name, a number or a field of its own.
func TestWhatNodesAgreeOnIsThatOfTheFirstRelease(t *testing.T) {
	pid, err := actor.ParsePID("a~7/counter#1z")
	if err != nil {
		t.Fatal(err)
	}
	types := codec.NewTypes().Strict()
	for _, c := range []struct {
		value any
		bytes string
	}{
		{findRequest{"/counter"}, "00a16450617468682f636f756e746572"},
		{found{pid}, "00a1635049446e617e372f636f756e74657223317a"},
		{spawnRequest{"counter", "mine"}, "00a2644e616d65646d696e65654f6666657267636f756e746572"},
	} {
		data, err := types.AppendValue(nil, c.value)
		if got := hex.EncodeToString(data); got != c.bytes || err != nil {
			t.Errorf("%T is %s, not %s; %v", c.value, got, c.bytes, err)
		}
		old, _ := hex.DecodeString(c.bytes)
		into := reflect.New(reflect.TypeOf(c.value))
		if err := types.DecodeValue(old, into.Interface()); !reflect.DeepEqual(into.Elem().Interface(), c.value) || err != nil {
			t.Errorf("%s is %+v, not %+v; %v", c.bytes, into.Elem(), c.value, err)
		}
	}
	for code, reason := range []actor.Reason{
		1: actor.Stopped, 2: actor.Failed, 3: actor.Killed, 4: actor.NoActor,
		5: actor.Overflowed, 6: actor.Conflated, 7: actor.NoConnection, 8: actor.NotAccepted,
	} {
		if int(reason) != code {
			t.Errorf("the reason %v is %d, not %d", reason, reason, code)
		}
	}
	for name, err := range map[string]error{
		"actor.stopped": actor.ErrStopped, "actor.unreachable": actor.ErrUnreachable, "actor.unhandled": actor.ErrUnhandled,
		"actor.not_accepted": actor.ErrNotAccepted, "actor.mailbox_full": actor.ErrMailboxFull, "actor.deadlock": actor.ErrDeadlock,
		"actor.too_many_waiting": actor.ErrTooManyWaiting, "actor.linked": actor.ErrLinked, "actor.restart_budget": actor.ErrRestartBudget,
		"actor.name_taken": actor.ErrNameTaken, "actor.wrong_goroutine": actor.ErrWrongGoroutine, "actor.bad_name": actor.ErrBadName, "remote.not_offered": ErrNotOffered,
	} {
		if builtIn.SentinelOf(name) != err || builtIn.SentinelName(err) != name { //nolint:errorlint // the very one
			t.Errorf("%s is %v, and %v %s", name, builtIn.SentinelOf(name), err, builtIn.SentinelName(err))
		}
	}
}
