package entity_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// device receives the commands of an entity.
type device struct {
	got  chan entity.Command
	stop func()
}

func (s *stage) device(id string) *device {
	s.t.Helper()
	d := &device{got: make(chan entity.Command, 2*entity.MaxOpenCommands)}
	stop, err := s.Receive(id, func(c entity.Command) { d.got <- c })
	if err != nil {
		s.t.Fatal(err)
	}
	d.stop = stop
	return d
}

// next returns the next command that the device is sent.
func (d *device) next(t *testing.T, what string) entity.Command {
	t.Helper()
	c := wait(t, d.got, what)
	if c.State != entity.CommandSent || c.Sent == 0 || c.Attempts == 0 {
		t.Errorf("%s was sent as %+v", what, c)
	}
	return c
}

func (s *stage) command(id string, n entity.NewCommand) entity.Command {
	s.t.Helper()
	c, err := s.Command(s.t.Context(), id, n)
	if err != nil {
		s.t.Fatalf("command %q to %q: %v", n.Name, id, err)
	}
	return c
}

// find returns a command as it is committed.
func (s *stage) find(c entity.Command) entity.Command {
	s.t.Helper()
	found, err := s.FindCommand(s.t.Context(), c.Entity, c.ID)
	if err != nil {
		s.t.Fatalf("find the command %q: %v", c.Name, err)
	}
	return found
}

// done answers a command as its device.
func (s *stage) done(c entity.Command, result value.Value) {
	s.t.Helper()
	if err := s.Done(s.t.Context(), c.Entity, c.ID, result); err != nil {
		s.t.Fatalf("answer %q: %v", c.Name, err)
	}
}

// ended returns a command when it has ended.
func (s *stage) ended(c entity.Command) entity.Command {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	end, err := s.WaitCommand(ctx, c.Entity, c.ID)
	if err != nil {
		s.t.Fatalf("wait for the end of %q: %v", c.Name, err)
	}
	return end
}

func TestACommandIsKeptUntilItsDeviceHasAnswered(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	etag := s.entity("d").ETag
	made := s.command("d", entity.NewCommand{Name: "open", Request: entity.ParseJSON([]byte(`{"angle":30}`)), By: "me"})
	if made.State != entity.CommandQueued || made.Entity != "d" || made.Created == 0 || made.Expires <= made.Created || made.By != "me" {
		t.Errorf("the command is %+v", made)
	}
	s = s.reopen(entity.Config{})
	if got := s.find(made); got != made {
		t.Errorf("after a restart it is %+v, was %+v", got, made)
	}
	d := s.device("d")
	sent := d.next(t, "the command")
	if sent.ID != made.ID || sent.Request != made.Request || sent.Attempts != 1 {
		t.Errorf("the device got %+v", sent)
	}
	if err := s.Delivered(t.Context(), "d", sent.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Progress(t.Context(), "d", sent.ID, value.Int(40)); err != nil {
		t.Fatal(err)
	}
	if got := s.find(made); got.State != entity.CommandDelivered || got.Delivered == 0 || got.Progress != value.Int(40) {
		t.Errorf("on its way it is %+v", got)
	}
	s.done(sent, value.String("opened"))
	end := s.find(made)
	if end.State != entity.CommandDone || end.Result != value.String("opened") || end.Ended == 0 {
		t.Errorf("at its end it is %+v", end)
	}
	s.done(sent, value.String("again"))
	if err := errors.Join(s.Delivered(t.Context(), "d", sent.ID), s.Fail(t.Context(), "d", sent.ID, "late"), s.Progress(t.Context(), "d", sent.ID, value.Int(1))); err != nil {
		t.Errorf("a late answer: %v", err)
	}
	if got := s.find(made); got != end || s.entity("d").ETag != etag {
		t.Errorf("a late answer made it %+v, and the ETag %s of %s", got, s.entity("d").ETag, etag)
	}
	if err := s.Done(t.Context(), "d", "nothing", value.Value{}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("an answer to no command: %v", err)
	}
	if _, err := s.Command(t.Context(), "nobody", entity.NewCommand{Name: "open"}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("a command to nobody: %v", err)
	}
}

func TestCommandsAreSentOneAtATimeUnlessTheyAreParallel(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(`{"id":"Door","commands":{"ring":{"parallel":true}}}`)
	s.edit("d", entity.Edits{Type: new("Door")})
	var made []entity.Command
	for i := range 3 {
		made = append(made, s.command("d", entity.NewCommand{Name: fmt.Sprint("step ", i)}))
	}
	ring := s.command("d", entity.NewCommand{Name: "ring"})
	beside := s.command("d", entity.NewCommand{Name: "blink", Parallel: true})
	d := s.device("d")
	for i, want := range []entity.Command{made[0], ring, beside} {
		if got := d.next(t, want.Name); got.ID != want.ID {
			t.Errorf("command %d is %q, want %q", i, got.Name, want.Name)
		}
	}
	for i, c := range made {
		if i > 0 {
			if got := d.next(t, c.Name); got.ID != c.ID {
				t.Errorf("after the end of the one before %q is sent, want %q", got.Name, c.Name)
			}
		}
		if len(d.got) > 0 {
			t.Errorf("beside %q another one is sent", c.Name)
		}
		if i == 1 {
			if err := s.Fail(t.Context(), "d", c.ID, "jammed"); err != nil {
				t.Fatal(err)
			}
			if got := s.find(c); got.State != entity.CommandFailed || got.Error != "jammed" {
				t.Errorf("the failed one is %+v", got)
			}
			continue
		}
		s.done(c, value.Value{})
	}
}

func TestACommandIsKnownAgainByItsKey(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	n := entity.NewCommand{Name: "open", Request: value.Int(1), Key: "k"}
	made := s.command("d", n)
	other := n
	other.Request = value.Int(2)
	alices := n
	alices.By = "alice"
	hers := s.command("d", alices)
	if hers.ID == made.ID {
		t.Error("somebody else's command has the same key and is not sent")
	}
	check := func(when string) {
		t.Helper()
		if again := s.command("d", n); again.ID != made.ID {
			t.Errorf("%s: another command was made", when)
		}
		if again := s.command("d", alices); again.ID != hers.ID {
			t.Errorf("%s: another command of alice was made", when)
		}
		if _, err := s.Command(t.Context(), "d", other); !errors.Is(err, entity.ErrOtherCommand) {
			t.Errorf("%s: another request with the same key: %v", when, err)
		}
	}
	check("queued")
	s = s.reopen(entity.Config{})
	check("after a restart")
	s.done(made, value.Value{})
	s.done(hers, value.Value{})
	check("done")
	s = s.reopen(entity.Config{})
	check("done, after a restart")
	if list, err := s.Commands(t.Context(), "d", entity.CommandsQuery{}); err != nil || len(list) != 2 {
		t.Errorf("there are %d commands, %v", len(list), err)
	}
	s.command("d", entity.NewCommand{Name: "open"})
	s.command("d", entity.NewCommand{Name: "open"})
	if list, err := s.OpenCommands(t.Context(), "d"); err != nil || len(list) != 2 || list[0].ID >= list[1].ID {
		t.Errorf("without a key: %+v, %v", list, err)
	}
}

func TestACommandIsKnownAgainByItsKeyAfterItHasExpired(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	n := entity.NewCommand{Name: "open", Key: "k", Expires: time.Now().Add(200 * time.Millisecond).UnixMilli()}
	made := s.command("d", n)
	if end := s.ended(made); end.State != entity.CommandExpired {
		t.Fatalf("it ended as %v", end.State)
	}
	if again := s.command("d", n); again.ID != made.ID || again.State != entity.CommandExpired {
		t.Errorf("sent again it is %+v", again)
	}
	n.Key = "another"
	if _, err := s.Command(t.Context(), "d", n); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("another one that has expired: %v", err)
	}
}

// TestCommandsOfOneKeyAreOne sends a command many times at once while its device answers.
func TestCommandsOfOneKeyAreOne(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	const keys, senders = 20, 8
	answered := make(chan struct{}, keys*senders)
	stop, err := s.Receive("d", func(c entity.Command) {
		if err := s.Done(context.Background(), c.Entity, c.ID, value.Value{}); err != nil {
			t.Errorf("answer: %v", err)
		}
		answered <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ids := make(chan [2]string, keys*senders)
	for range senders {
		go func() {
			for key := range keys {
				c, err := s.Command(t.Context(), "d", entity.NewCommand{Name: "x", Key: fmt.Sprint(key)})
				if err != nil {
					t.Errorf("command: %v", err)
				}
				ids <- [2]string{c.Key, c.ID}
			}
		}()
	}
	of := map[string]string{}
	for range keys * senders {
		id := wait(t, ids, "a command")
		if of[id[0]] != "" && of[id[0]] != id[1] {
			t.Fatalf("the key %s has two commands", id[0])
		}
		of[id[0]] = id[1]
	}
	for range keys {
		wait(t, answered, "an answer")
	}
	if list, err := s.Commands(t.Context(), "d", entity.CommandsQuery{Limit: 1000}); err != nil || len(list) != keys {
		t.Errorf("%d commands, %v", len(list), err)
	}
}

func TestCommandsExpireAndTimeOutAlsoWhereTheirEntityIsCold(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	for _, id := range []string{"expires", "times out"} {
		s.edit(id, entity.Edits{})
	}
	d := s.device("times out")
	late := s.command("times out", entity.NewCommand{Name: "open", Timeout: 300 * time.Millisecond})
	d.next(t, "the command")
	behind := s.command("times out", entity.NewCommand{Name: "next"})
	if err := s.Delivered(t.Context(), "times out", late.ID); err != nil {
		t.Fatal(err)
	}
	lost := s.command("expires", entity.NewCommand{Name: "open", Expires: time.Now().Add(300 * time.Millisecond).UnixMilli()})
	s = s.reopen(entity.Config{}) // no actor has them
	d = s.device("times out")
	if end := s.ended(lost); end.State != entity.CommandExpired || end.Ended < end.Expires || end.Attempts != 0 {
		t.Errorf("the one that could not be delivered is %+v", end)
	}
	if end := s.ended(late); end.State != entity.CommandTimedOut || end.Ended < end.Delivered+end.Timeout {
		t.Errorf("the one without an answer is %+v", end)
	}
	if got := d.next(t, "the next command"); got.ID != behind.ID {
		t.Errorf("%+v is sent next", got)
	}
	if n := s.Stats().OpenCommands; n != 1 {
		t.Errorf("%d entities have open commands", n)
	}
}

// TestAnExpiredCommandIsNotSentWhenItsTurnComes ends a command in a turn in which the next
// one has expired, before the commander can come to it.
func TestAnExpiredCommandIsNotSentWhenItsTurnComes(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	d := s.device("d")
	first := s.command("d", entity.NewCommand{Name: "open"})
	d.next(t, "the first")
	late := s.command("d", entity.NewCommand{Name: "late", Expires: time.Now().Add(300 * time.Millisecond).UnixMilli()})
	last := s.command("d", entity.NewCommand{Name: "close"})
	answered := make(chan error, 1)
	err := s.View(t.Context(), "d", func(entity.View) error {
		go func() { answered <- s.Done(context.Background(), "d", first.ID, value.Value{}) }()
		return pause.For(t.Context(), time.Until(time.UnixMilli(late.Expires+20)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(t, answered, "the answer"); err != nil {
		t.Fatal(err)
	}
	if got := d.next(t, "the one behind it"); got.ID != last.ID {
		t.Errorf("%q is sent", got.Name)
	}
	if end := s.ended(late); end.State != entity.CommandExpired || end.Attempts != 0 {
		t.Errorf("the expired one is %+v", end)
	}
}

// TestTheWindowBoundsTheStepsOfCommands sends 4 MiB of commands at once through a window
// of 1 MiB.
func TestTheWindowBoundsTheStepsOfCommands(t *testing.T) {
	const window, step = 1 << 20, 512 << 10
	s := open(t, t.TempDir(), entity.Config{WindowBytes: window})
	s.edit("d", entity.Edits{})
	large := value.String(strings.Repeat("k", entity.MaxTextBytes))
	const n = entity.MaxOpenCommandBytes / (entity.MaxTextBytes + 1)
	for range n {
		s.command("d", entity.NewCommand{Name: "a", Request: large, Parallel: true})
	}
	most := make(chan int, 2*n)
	s.store.onCommit(func(_ context.Context, b *entity.Batch) error {
		bytes := 0
		for _, r := range b.Records {
			bytes += len(r.Command.Request.Text())
		}
		most <- bytes
		return nil
	})
	d := s.device("d")
	for range n {
		d.next(t, "a command")
	}
	for sent := 0; sent < n*entity.MaxTextBytes; {
		bytes := wait(t, most, "a commit")
		if sent += bytes; bytes > window+step {
			t.Errorf("a commit has %d bytes of commands", bytes)
		}
	}
}

func TestProgressCountsAsTheOtherTextsOfCommands(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	d := s.device("d")
	large := value.String(strings.Repeat("k", entity.MaxTextBytes))
	for range entity.MaxOpenCommandBytes / (entity.MaxTextBytes + 1) {
		s.command("d", entity.NewCommand{Name: "a", Request: large})
	}
	first := d.next(t, "the first")
	if err := s.Progress(t.Context(), "d", first.ID, value.Int(1)); err != nil {
		t.Error(err)
	}
	if err := s.Progress(t.Context(), "d", first.ID, large); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("too many bytes: %v", err)
	}
	if got := s.find(first); got.Progress != value.Int(1) {
		t.Errorf("it is %+v", got)
	}
	s.done(first, large) // it has ended then
	d.next(t, "the second")
}

// TestWhoWaitsForACommandIsToldItsNewestProgress has the progress come late in the stream of
// changes: what it says when the wait ends is then older than what is in the store.
func TestWhoWaitsForACommandIsToldItsNewestProgress(t *testing.T) {
	hooked := &heldReads{done: make(chan struct{})}
	s := openOn(t, t.TempDir(), entity.Config{}, func(disk *sqlite.Store) entity.Store {
		hooked.Store = disk
		return hooked
	})
	s.SetLastLook(patience)
	s.edit("d", entity.Edits{})
	d := s.device("d")
	made := s.command("d", entity.NewCommand{Name: "open"})
	d.next(t, "the command")
	follower, err := s.Follow(t.Context(), entity.ChangesQuery{Entities: []string{"d"}, CommandsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	reading := newGate()
	hooked.first.Store(reading)
	ctx, cancel := context.WithCancel(t.Context())
	waited := s.outcome(ctx, made)
	wait(t, reading.came, "the read")
	if err := s.Progress(t.Context(), "d", made.ID, value.Int(10)); err != nil {
		t.Fatal(err)
	}
	acker, acked := newGate(), make(chan struct{})
	if err := s.Ingest(t.Context(), "other", []entity.Reading{at(1, "t", value.Int(1))}, 50, func(error) {
		_ = acker.pass(context.Background())
		close(acked)
	}); err != nil {
		t.Fatal(err)
	}
	wait(t, acker.came, "the acker")
	told := make(chan error, 1)
	go func() { told <- s.Progress(context.Background(), "d", made.ID, value.Int(20)) }() // nobody is told before the acker goes on
	for began := time.Now(); s.find(made).Progress != value.Int(20); runtime.Gosched() {
		if time.Since(began) > patience {
			t.Fatal("the second progress is not committed")
		}
	}
	reading.open()
	wait(t, hooked.done, "what is read")
	for change := (entity.Change{}); change.Command == nil || change.Command.Progress != value.Int(10); {
		if change, err = follower.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if got := wait(t, waited, "the end of the wait"); !errors.Is(got.err, context.Canceled) || got.c.Progress != value.Int(20) {
		t.Errorf("it is told the progress %v, %v", got.c.Progress, got.err)
	}
	acker.open()
	wait(t, acked, "the acker")
	if err := wait(t, told, "the second progress"); err != nil {
		t.Error(err)
	}
}

func TestAWaitForACommandEndsInTimeIfTheStoreIsStuck(t *testing.T) {
	hooked := &heldReads{done: make(chan struct{})}
	s := openOn(t, t.TempDir(), entity.Config{}, func(disk *sqlite.Store) entity.Store {
		hooked.Store = disk
		return hooked
	})
	s.SetLastLook(time.Millisecond)
	s.edit("d", entity.Edits{})
	made := s.command("d", entity.NewCommand{Name: "open"})
	reading := newGate()
	hooked.first.Store(reading)
	ctx, cancel := context.WithCancel(t.Context())
	waited := s.outcome(ctx, made)
	reading.open()
	wait(t, hooked.done, "the read before the wait")
	stuck := newGate() // never opened
	hooked.first.Store(stuck)
	cancel()
	wait(t, stuck.came, "the read after the wait")
	if got := wait(t, waited, "the end of the wait"); !errors.Is(got.err, context.Canceled) || got.c.ID != made.ID {
		t.Errorf("it is told %+v, %v", got.c, got.err)
	}
}

// commandOutcome is what WaitCommand has returned.
type commandOutcome struct {
	c   entity.Command
	err error
}

// outcome waits for a command of the entity d, and sends what comes of it.
func (s *stage) outcome(ctx context.Context, made entity.Command) <-chan commandOutcome {
	waited := make(chan commandOutcome, 1)
	go func() {
		c, err := s.WaitCommand(ctx, "d", made.ID)
		waited <- commandOutcome{c, err}
	}()
	return waited
}

// heldReads is a store whose next read of commands waits at a gate.
type heldReads struct {
	entity.Store
	first atomic.Pointer[gate]
	done  chan struct{} // closed when it has been read
}

func (s *heldReads) Commands(ctx context.Context, id string, q entity.CommandsQuery) ([]entity.Command, error) {
	if g := s.first.Swap(nil); g != nil {
		if err := g.pass(ctx); err != nil {
			return nil, err
		}
		defer close(s.done)
	}
	return s.Store.Commands(ctx, id, q)
}

func TestACanceledCommandIsNotSent(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	first, second := s.command("d", entity.NewCommand{Name: "open"}), s.command("d", entity.NewCommand{Name: "close"})
	c, err := s.Cancel(t.Context(), "d", first.ID)
	if err != nil || c.State != entity.CommandCanceled || c.Ended == 0 {
		t.Errorf("canceled: %+v, %v", c, err)
	}
	if got := s.device("d").next(t, "the other command"); got.ID != second.ID {
		t.Errorf("%q is sent", got.Name)
	}
	if c, err = s.Cancel(t.Context(), "d", first.ID); !errors.Is(err, entity.ErrCommandEnded) || c.State != entity.CommandCanceled {
		t.Errorf("canceled twice: %+v, %v", c, err)
	}
	if _, err = s.Cancel(t.Context(), "d", "nothing"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("no command canceled: %v", err)
	}
}

func TestCommandsAreCheckedAgainstTheType(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(`{"id":"Door","strict":true,"commands":{"open":{"request":{"type":"object","fields":{"angle":{"type":"number","max":90}}},"response":{"type":"boolean"}},"free":{}}}`)
	s.edit("d", entity.Edits{Type: new("Door")})
	for name, n := range map[string]entity.NewCommand{
		"another command":      {Name: "close"},
		"another request":      {Name: "open", Request: value.Int(1)},
		"no request":           {Name: "open"},
		"a request too large":  {Name: "open", Request: entity.ParseJSON([]byte(`{"angle":100}`))},
		"a member that is not": {Name: "open", Request: entity.ParseJSON([]byte(`{"speed":1}`))},
	} {
		if _, err := s.Command(t.Context(), "d", n); !errors.Is(err, entity.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.command("d", entity.NewCommand{Name: "free", Request: value.String("anything"), Parallel: true})
	made := s.command("d", entity.NewCommand{Name: "open", Request: entity.ParseJSON([]byte(`{"angle":30}`))})
	if err := s.Done(t.Context(), "d", made.ID, value.String("yes")); !errors.Is(err, entity.ErrMismatch) {
		t.Errorf("another answer: %v", err)
	}
	if got := s.find(made); got.State != entity.CommandFailed || !strings.Contains(got.Error, "a boolean") {
		t.Errorf("after it: %+v", got)
	}
}

func TestCommandsHaveLimits(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	now := time.Now().UnixMilli()
	for name, n := range map[string]entity.NewCommand{
		"no name":         {},
		"control":         {Name: "a\nb"},
		"a long key":      {Name: "a", Key: strings.Repeat("k", entity.MaxCommandKeyBytes+1)},
		"a long by":       {Name: "a", By: strings.Repeat("k", entity.MaxCommandByBytes+1)},
		"a large request": {Name: "a", Request: value.String(strings.Repeat("k", entity.MaxTextBytes+1))},
		"an old expiry":   {Name: "a", Expires: now - 1},
		"a late expiry":   {Name: "a", Expires: now + entity.MaxCommandExpiry.Milliseconds() + 60_000},
		"a long timeout":  {Name: "a", Timeout: entity.MaxCommandTimeout + 1},
		"no timeout":      {Name: "a", Timeout: 1},
	} {
		if _, err := s.Command(t.Context(), "d", n); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := value.String(strings.Repeat("k", entity.MaxTextBytes))
	for range entity.MaxOpenCommandBytes / (entity.MaxTextBytes + 1) {
		s.command("d", entity.NewCommand{Name: "a", Request: large})
	}
	if _, err := s.Command(t.Context(), "d", entity.NewCommand{Name: "a", Request: large}); !errors.Is(err, entity.ErrTooManyCommands) {
		t.Errorf("too many bytes: %v", err)
	}
	s.edit("e", entity.Edits{})
	errs := make(chan error, entity.MaxOpenCommands+1)
	for range entity.MaxOpenCommands + 1 {
		go func() {
			_, err := s.Command(t.Context(), "e", entity.NewCommand{Name: "a"})
			errs <- err
		}()
	}
	refused := 0
	for range entity.MaxOpenCommands + 1 {
		if err := wait(t, errs, "a command"); errors.Is(err, entity.ErrTooManyCommands) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d of %d commands were refused", refused, entity.MaxOpenCommands+1)
	}
}

func TestStepsOfCommandsAreInTheStreamOfThoseWhoAskForThem(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	streams := map[string]*entity.Subscription{}
	for name, q := range map[string]entity.ChangesQuery{"none": {Edits: true}, "all": {Commands: true}, "only": {CommandsOnly: true}} {
		sub, err := s.Changes(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		streams[name] = sub
	}
	d := s.device("d")
	made := s.command("d", entity.NewCommand{Name: "open"})
	d.next(t, "the command")
	s.done(made, value.Value{})
	s.write("d", at(1, "t", value.Int(1)))
	if err := s.Delete(t.Context(), "d", ""); err != nil {
		t.Fatal(err)
	}
	steps := []string{"queued", "sent", "done"}
	for name, want := range map[string][]string{"none": {"reading", "deleted"}, "all": append(slices.Clone(steps), "reading"), "only": append(slices.Clone(steps), "deleted")} {
		var got []string
		for range want {
			c, err := streams[name].Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.Command != nil:
				got = append(got, c.Command.State.String())
			case c.Edit != nil && c.Edit.Deleted:
				got = append(got, "deleted")
			case len(c.Values) == 1:
				got = append(got, "reading")
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestCommandsEndWithTheirEntity(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	d := s.device("d")
	made := s.command("d", entity.NewCommand{Name: "open"})
	d.next(t, "the command")
	waited := make(chan error, 1)
	go func() {
		_, err := s.WaitCommand(t.Context(), "d", made.ID)
		waited <- err
	}()
	if err := s.Delete(t.Context(), "d", ""); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, waited, "the end of the wait"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("who waits is told: %v", err)
	}
	s.edit("d", entity.Edits{})
	if list, err := s.Commands(t.Context(), "d", entity.CommandsQuery{}); err != nil || len(list) != 0 || s.Stats().OpenCommands != 0 {
		t.Errorf("the next one has %+v, %v; %d entities have open commands", list, err, s.Stats().OpenCommands)
	}
	next := s.command("d", entity.NewCommand{Name: "close"})
	if got := d.next(t, "the command to the next one"); got.ID != next.ID {
		t.Errorf("%+v is sent", got)
	}
}

func TestNoCommandIsSentBeforeItIsDurable(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	d := s.device("d")
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	made := make(chan error, 1)
	go func() {
		_, err := s.Command(t.Context(), "d", entity.NewCommand{Name: "open"})
		made <- err
	}()
	wait(t, g.came, "the commit")
	again := s.device("d") // asks for what there is
	if _, err := s.Accepted(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	if len(d.got)+len(again.got) > 0 {
		t.Error("it was sent before its commit")
	}
	g.open()
	if err := wait(t, made, "the command"); err != nil {
		t.Fatal(err)
	}
	again.next(t, "the command")
}

// BenchmarkCommands reports durable commands in a second beside durable edits of the same
// entities in the same run: commands that are only queued, and those that go all the way
// to a device, which acknowledges and answers each.
func BenchmarkCommands(b *testing.B) {
	const entities, senders = 1000, 256
	s := open(b, b.TempDir(), entity.Config{})
	ids := make([]string, entities)
	for i := range ids {
		ids[i] = fmt.Sprintf("device-%d", i)
	}
	// rate does something b.N times, and returns how often in a second.
	rate := func(f func(id string) error) float64 {
		began := time.Now()
		var next atomic.Int64
		var working sync.WaitGroup
		for range senders {
			working.Go(func() {
				for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
					if err := f(ids[n%entities]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		working.Wait()
		return float64(b.N) / time.Since(began).Seconds()
	}
	for _, id := range ids {
		s.edit(id, entity.Edits{})
	}
	request := entity.ParseJSON([]byte(`{"angle":30}`))
	b.ResetTimer()
	edits := rate(func(id string) error {
		_, err := s.Edit(b.Context(), id, entity.Edits{Patches: []entity.Patch{merge(entity.Desired, `{"angle":30}`)}})
		return err
	})
	queued := rate(func(id string) error {
		c, err := s.Command(b.Context(), id, entity.NewCommand{Name: "open", Request: request})
		if err == nil {
			_, err = s.Cancel(b.Context(), id, c.ID)
		}
		return err
	})
	for _, id := range ids {
		stop, err := s.Receive(id, func(c entity.Command) {
			if err := s.Delivered(b.Context(), c.Entity, c.ID); err != nil {
				b.Error(err)
			}
			if err := s.Done(b.Context(), c.Entity, c.ID, request); err != nil {
				b.Error(err)
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		defer stop()
	}
	whole := rate(func(id string) error {
		c, err := s.Command(b.Context(), id, entity.NewCommand{Name: "open", Request: request, Parallel: true})
		if err == nil {
			_, err = s.WaitCommand(b.Context(), id, c.ID)
		}
		return err
	})
	b.ReportMetric(edits, "edits/s")
	b.ReportMetric(2*queued, "steps/s") // to queue and to cancel
	b.ReportMetric(2*queued/edits, "steps/edit")
	b.ReportMetric(whole, "commands/s")
	b.ReportMetric(whole/edits, "commands/edit")
}

// TestAFullDiskRefusesCommandsAndKeepsWhatDevicesAcknowledge fills the disk: what is sent is
// refused, and the acknowledgement of a device, which it cannot send again, waits for room.
func TestAFullDiskRefusesCommandsAndKeepsWhatDevicesAcknowledge(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{RetryMin: time.Millisecond, RetryMax: time.Millisecond})
	s.edit("d", entity.Edits{})
	d := s.device("d")
	made := s.command("d", entity.NewCommand{Name: "open"})
	d.next(t, "the command")
	var full atomic.Bool
	full.Store(true)
	s.store.onCommit(func(context.Context, *entity.Batch) error {
		if full.Load() {
			return entity.ErrFull
		}
		return nil
	})
	acknowledged, failed := make(chan error, 1), make(chan error, 1)
	go func() { acknowledged <- s.Delivered(t.Context(), "d", made.ID) }()
	for range 2 { // on its way, and before it is
		if _, err := s.Command(t.Context(), "d", entity.NewCommand{Name: "close"}); !errors.Is(err, entity.ErrFull) {
			t.Errorf("a command on a full disk: %v", err)
		}
	}
	go func() { failed <- s.Fail(t.Context(), "d", made.ID, "jammed") }()
	if err := s.Progress(t.Context(), "d", made.ID, value.Int(1)); !errors.Is(err, entity.ErrFull) {
		t.Errorf("progress on a full disk: %v", err)
	}
	if len(acknowledged)+len(failed) > 0 {
		t.Error("an answer is durable on a full disk")
	}
	full.Store(false)
	if err := errors.Join(wait(t, acknowledged, "the acknowledgement"), wait(t, failed, "the failure")); err != nil {
		t.Error(err)
	}
	if got := s.find(made); got.State != entity.CommandFailed || got.Delivered == 0 {
		t.Errorf("with room again it is %+v", got)
	}
}
