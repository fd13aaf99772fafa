package behavior

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A behavior that is replaced while it handles changes has handled them: the next version does not begin with them
// again, however often that happens.
func TestChangesAreHandledOnceOverReplacements(t *testing.T) {
	p := build(t)
	begun := make(chan int64)
	var mu sync.Mutex
	calls := map[int64]int{}
	spec := counter("count")
	count := spec.Handle
	spec.Handle = func(e *Entity, ev Event) error {
		v, _ := ev.Value("x")
		mu.Lock()
		calls[v.Int()]++
		mu.Unlock()
		if v.Int()%10 == 0 {
			begun <- v.Int()
			<-e.Context().Done() // it rests, as scripts do
		}
		return count(e, ev)
	}
	const versions = 5
	for v := int64(1); v <= versions; v++ {
		spec.Version = v
		p.register(spec) // ends what the last one handles
		for i := range int64(3) {
			p.write("a", 10*v+i, "x", 10*v+i)
		}
		if first := <-begun; first != 10*v {
			t.Errorf("version %d is called for %d again", v, first)
		}
	}
	last := counter("count")
	last.Version = versions + 1
	p.register(last)
	p.sync("count")
	for x, n := range calls {
		if n != 1 {
			t.Errorf("the change to %d was handled %d times", x, n)
		}
	}
	if _, n := p.latest("a", "n"); n != 3*versions {
		t.Errorf("n = %d, want %d", n, 3*versions)
	}
}

// A handler that takes longer after the stop than the store has for what is under way has handled its change all the same.
func TestWhatASlowHandlerHasDecidedIsKeptAtTheStop(t *testing.T) {
	p := build(t)
	over := make(chan struct{})
	var once sync.Once
	later := func(f func()) {
		once.Do(func() { // the store's time since the stop is over before the handler has ended
			f()
			close(over)
		})
	}
	p.later.Store(&later)
	begun := make(chan struct{})
	var calls atomic.Int64
	spec := counter("count")
	count := spec.Handle
	spec.Handle = func(e *Entity, ev Event) error {
		if calls.Add(1) == 1 {
			close(begun)
			<-over
		}
		return count(e, ev)
	}
	p.register(spec)
	p.write("a", 1, "x", 1)
	<-begun
	spec.Version = 2
	p.register(spec)
	p.sync("count")
	if _, n := p.latest("a", "n"); n != 1 || calls.Load() != 1 {
		t.Errorf("n = %d after %d calls, want 1 after 1", n, calls.Load())
	}
}

// A stop closes the feed as well, at any moment. That is no failure.
func TestAStopThatClosesTheFeedIsAStop(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		b := &behavior{spec: Spec{Name: "count", Every: time.Hour}, count: new(counters)}
		b.s = &Service{cfg: Config{now: func() int64 { cancel(); return 0 }}} // follow asks before it waits
		closed := make(chan batch)
		close(closed)
		f := &follower{b: b, ctx: ctx, feed: &feed{batches: closed, err: context.Canceled}, sender: &sender{}}
		if err := f.follow(); !errors.Is(err, ErrClosed) {
			t.Fatalf("it has ended with %v, want ErrClosed", err)
		}
	}
}

// A handler that gives up because its behavior is stopped has not failed.
func TestAHandlerThatIsInterruptedIsCalledAgain(t *testing.T) {
	p := build(t)
	begun := make(chan struct{})
	spec := counter("count")
	spec.Handle = func(e *Entity, _ Event) error {
		close(begun)
		<-e.Context().Done()
		return context.Cause(e.Context())
	}
	p.register(spec)
	p.write("a", 1, "x", 1)
	<-begun
	spec = counter("count")
	spec.Version = 2
	p.register(spec)
	p.sync("count")
	if _, n := p.latest("a", "n"); n != 1 {
		t.Errorf("n = %d, want 1", n)
	}
	if st := p.status("count"); st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}
