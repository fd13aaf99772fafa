package actortest_test

import (
	"errors"
	"iter"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// TestAFailureSaysWhatWasExpectedAndWhatCame runs what must fail, and looks for what a
// person needs to read.
func TestAFailureSaysWhatWasExpectedAndWhatCame(t *testing.T) {
	tests := []struct {
		name string
		f    func(k *actortest.Kit)
		want []string
	}{
		{"another message", func(k *actortest.Kit) {
			_, _, log := open(k)
			log.Ref().Tell(k.Context(), note{"coffee"})
			log.Ref().Tell(k.Context(), quit{})
			log.Expect(note{"tea"})
		}, []string{
			"Expect: message 1 does not match", `want: actortest_test.note{Text:tea}`, `got:  actortest_test.note{Text:coffee}`,
			`differs: Text: want "tea", got "coffee"`, "queued: 1", "actortest_test.quit{} from -",
		}},
		{"another type", func(k *actortest.Kit) {
			_, _, log := open(k)
			log.Ref().Tell(k.Context(), quit{})
			log.Expect(note{"tea"})
		}, []string{"differs: want a actortest_test.note, got a actortest_test.quit"}},
		{"no message", func(k *actortest.Kit) {
			_, _, log := open(k)
			log.Expect(note{"tea"})
		}, []string{"/probe-2: Expect: no message arrived", "want: actortest_test.note{Text:tea}", "queued: 0", "taken before: 0"}},
		{"no next", func(k *actortest.Kit) {
			_, _, log := open(k)
			log.Ref().Tell(k.Context(), quit{})
			log.Next()
			log.Next()
		}, []string{"Next: no message arrived", "taken before: 1"}},
		{"a message of another type", func(k *actortest.Kit) {
			_, _, log := open(k)
			log.Ref().Tell(k.Context(), quit{})
			actortest.ExpectMsg[note](log)
		}, []string{"want: a message of type actortest_test.note", "got:  actortest_test.quit{}"}},
		{"no message of the type", func(k *actortest.Kit) {
			_, _, log := open(k)
			actortest.ExpectMsg[note](log)
		}, []string{"ExpectMsg: no message arrived", "want: a message of type actortest_test.note"}},
		{"a message too many", func(k *actortest.Kit) {
			ref, _, log := open(k)
			ref.Tell(k.Context(), note{"surprise"})
			log.ExpectNone()
		}, []string{"ExpectNone: 1 message arrived", "actortest_test.note{Text:surprise} from test/shop#"}},
		{"other messages than all of these", func(k *actortest.Kit) {
			p := actortest.NewProbe[string](k)
			p.Ref().Tell(k.Context(), "one")
			p.Ref().Tell(k.Context(), "three")
			p.ExpectAll("one", "two", "three")
		}, []string{
			"ExpectAll: the messages do not match", `want: []string[one two three]`, `got:  []string[one three]`,
			`differs: want 3 elements, got 2 elements`, `[1]: want "two", got "three"`,
		}},
		{"other lines than these", func(k *actortest.Kit) {
			log := actortest.NewJournal(k)
			log.Addf("begins")
			log.Addf("ends %d times", 2)
			log.Expect("begins", "ends once")
			log.Expect() // they are taken
		}, []string{
			"journal: the lines do not match", `want: ["begins" "ends once"]`, `got:  ["begins" "ends 2 times"]`,
			`differs: [1]: want "ends once", got "ends 2 times"`,
		}},
		{"a dead probe", func(k *actortest.Kit) {
			_, _, log := open(k)
			log.Ref().Stop()
			k.Settle()
			log.Ref().Tell(k.Context(), note{"unheard"})
			log.Expect(note{"unheard"})
		}, []string{"no message arrived", "dead letter: actortest_test.note{Text:unheard} to test/probe-2#"}},
		{"many queued", func(k *actortest.Kit) {
			p := actortest.NewProbe[int](k)
			for i := range 30 {
				p.Ref().Tell(k.Context(), i)
			}
			p.ExpectNone()
		}, []string{"30 messages arrived", "… and 10 more"}},
		{"an answer to nobody", func(k *actortest.Kit) {
			store := actortest.NewProbe[price](k)
			actortest.Ask(k, store.Ref(), price{Item: "milk"})
			actortest.Reply(store, price{Item: "tea"}, 1)
		}, []string{"Reply: no such request waits for an answer", "request: actortest_test.price{Returns:{} Item:tea}", "waiting: 1", "Item:milk}"}},
		{"an answer too late", func(k *actortest.Kit) {
			store := actortest.NewProbe[price](k)
			actortest.Ask(k, store.Ref(), price{Item: "milk"})
			k.Advance(time.Hour)
			actortest.Reject(store, price{Item: "milk"}, errors.New("no"))
		}, []string{"Reject: no such request waits", "waiting: 0"}},
		{"an ask that goes on", func(k *actortest.Kit) {
			store := actortest.NewProbe[price](k)
			actortest.Ask(k, store.Ref(), price{Item: "milk"}).Answer()
		}, []string{"the ask actortest_test.price{Returns:{} Item:milk} of test/probe-1#", "has not ended", "it is running"}},
		{"an ask that failed", func(k *actortest.Kit) {
			store := actortest.NewProbe[price](k)
			store.Ref().Stop()
			actortest.Ask(k, store.Ref(), price{Item: "milk"}).Answer()
		}, []string{"Answer: the ask", "actor stopped"}},
		{"an actor that lives", func(k *actortest.Kit) {
			ref, _, _ := open(k)
			ref.Tell(k.Context(), fail{errors.New("broken")})
			k.ExpectFailures(1)
			actortest.ExpectDown(k, ref)
		}, []string{"ExpectDown: actor test/shop#", "has not ended", "it is running, 0 messages wait, 0 children, restarted once"}},
		{
			"no dead letter", func(k *actortest.Kit) { actortest.ExpectDeadLetter[note](k) },
			[]string{"ExpectDeadLetter: there is none", "want: a message of type actortest_test.note"},
		},
		{"another dead letter", func(k *actortest.Kit) {
			ref, _, _ := open(k)
			ref.Stop()
			k.Settle()
			ref.Tell(k.Context(), quit{})
			ref.Tell(k.Context(), note{"a"})
			actortest.ExpectDeadLetter[note](k)
		}, []string{"of another type", "got:  actortest_test.quit{} to test/shop#", "from -: no_actor", "after it:\n    actortest_test.note{Text:a}"}},
		{"a dead letter", func(k *actortest.Kit) {
			ref, _, _ := open(k)
			ref.Stop()
			k.Settle()
			ref.Tell(k.Context(), quit{})
			k.ExpectNoDeadLetter()
		}, []string{"ExpectNoDeadLetter: there are 1", "actortest_test.quit{} to test/shop#"}},
		{"dead letters that are lost", func(k *actortest.Kit) {
			ref, _, _ := open(k)
			ref.Stop()
			k.Settle()
			for range 257 {
				ref.Tell(k.Context(), quit{})
			}
			k.ExpectNoDeadLetter()
		}, []string{"257 dead letters", "1 that the test has not looked at are lost"}},
		{"a failure that nobody expected", func(k *actortest.Kit) {
			ref, _, _ := open(k)
			ref.Tell(k.Context(), fail{errors.New("broken")})
			k.Advance(time.Second)
		}, []string{"actors failed once unexpectedly", "error=broken", "actor=test/shop#", "the system's log, at virtual times:\nat=0s"}},
		{
			"too few failures", func(k *actortest.Kit) { k.ExpectFailures(2) },
			[]string{"ExpectFailures: actors failed 0 times since the last look, want 2 times"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			output, failed := actortest.Recorded(t, test.f, nil)
			if !failed {
				t.Error("did not fail")
			}
			output = regexp.MustCompile(`test~[0-9a-z]+/`).ReplaceAllString(output, "test/") // its incarnation
			for _, want := range test.want {
				if !strings.Contains(output, want) {
					t.Errorf("%q is not in\n%s", want, output)
				}
			}
		})
	}
}

func TestATestThatPassesSaysNothing(t *testing.T) {
	output, failed := actortest.Recorded(t, func(k *actortest.Kit) {
		ref, _, log := open(k)
		ref.Tell(k.Context(), note{"tea"})
		log.Expect(note{"tea"})
	}, nil)
	if failed || output != "" {
		t.Errorf("failed %v, said %q", failed, output)
	}
}

func TestAnActorThatDoesNotStopIsNamed(t *testing.T) {
	var release chan struct{}
	output, failed := actortest.Recorded(t, func(k *actortest.Kit) {
		release = make(chan struct{})
		actor.SpawnFunc(k.System(), "boss", func(ctx *actor.Context[int], _ int) error {
			child := actor.SpawnFunc(ctx, "stubborn", func(*actor.Context[int], int) error {
				<-release
				return nil
			})
			child.Tell(ctx, 1)
			return nil
		}).Tell(k.Context(), 1)
	}, func() { close(release) })
	if !failed {
		t.Error("did not fail")
	}
	for _, want := range []string{
		"not stopped within 1m0s of virtual time", "actor /boss/stubborn (func(int))", "its handler has not returned",
		"TestAnActorThatDoesNotStopIsNamed.func1.1.1",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in\n%s", want, output)
		}
	}
}

func TestAGoroutineThatIsLeftIsNamed(t *testing.T) {
	var release chan struct{}
	output, failed := actortest.Recorded(t, func(*actortest.Kit) {
		release = make(chan struct{})
		go func() { <-release }()
	}, func() { close(release) })
	if !failed {
		t.Error("did not fail")
	}
	for _, want := range []string{"1 goroutine left", "TestAGoroutineThatIsLeftIsNamed.func1.1"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in\n%s", want, output)
		}
	}
}

func TestACoroutineThatIsLeftIsNamed(t *testing.T) {
	var stop func()
	output, failed := actortest.Recorded(t, func(*actortest.Kit) {
		var next func() (int, bool)
		next, stop = iter.Pull(func(yield func(int) bool) { yield(1) })
		next()
	}, func() { stop() })
	if !failed || !strings.Contains(output, "1 goroutine left") || !strings.Contains(output, "TestACoroutineThatIsLeftIsNamed.func1.1") {
		t.Errorf("failed %v: %s", failed, output)
	}
}

func TestASystemOutsideOfABubbleMustStopToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // only so that the minute of its patience passes at once
		r, release := &actortest.Recorder{TB: t}, make(chan struct{})
		t.Cleanup(func() { // after that of NewSystem
			close(release)
			output, failed := r.Said()
			if !failed || !strings.Contains(output, "the system did not shut down") || !strings.Contains(output, "/stubborn") {
				t.Errorf("failed %v: %s", failed, output)
			}
		})
		sys := actortest.NewSystem(r)
		actor.SpawnFunc(sys, "stubborn", func(*actor.Context[int], int) error {
			<-release
			return nil
		}).Tell(t.Context(), 1)
	})
}

func TestNothingCanBeSaidWhileWorkersAreMissing(t *testing.T) {
	output, failed := actortest.Recorded(t, func(k *actortest.Kit) {
		p, release := actortest.NewProbe[int](k), make(chan struct{})
		defer close(release)
		for range runtime.GOMAXPROCS(0) { // as many as there are workers until the runtime notices
			actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error {
				<-release
				return nil
			}).Tell(k.Context(), 1)
		}
		k.Settle()
		p.Ref().Tell(k.Context(), 1)
		p.ExpectNone()
	}, nil)
	if !failed || !strings.Contains(output, "cannot tell yet") || !strings.Contains(output, "1 actor with mail and no worker") {
		t.Errorf("failed %v: %s", failed, output)
	}
}
