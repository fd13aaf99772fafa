package virtual_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// listen is told of the events of the system.
func (w *world) listen(_ *actor.Context[actor.Event], e actor.Event) error {
	w.counts.ran.Add(1)
	switch e := e.(type) {
	case actor.DeadLetter:
		if m, ok := e.Message.(mail); ok && m.l != nil {
			m.l.dead.Add(1)
		} else {
			w.counts.deadNotes.Add(1)
		}
	case actor.ActorStarted:
		if w.isKey(e.PID) {
			w.counts.started.Add(1)
		}
	case actor.ActorStopped:
		w.hearEnd(e)
	}
	return nil
}

func (w *world) isKey(pid actor.PID) bool { return strings.HasPrefix(pid.String(), "*/virtual/") }

// hearEnd is told of the end of an actor.
func (w *world) hearEnd(e actor.ActorStopped) {
	if !w.isKey(e.PID) {
		return
	}
	w.counts.ended.Add(1)
	switch e.Reason {
	case actor.Passivated:
		w.counts.passivated.Add(1)
	case actor.Killed:
		if w.counts.killed.Add(1); !w.kills {
			w.Report("end: %s was killed, which nobody has told it", e.PID)
		}
	case actor.Stopped:
		if !w.closing.Load() {
			w.Report("end: %s has stopped, and was not passivated", e.PID)
		}
	default:
	}
}

// missing returns some of what has yet to come: the end of letters, and notices.
func (w *world) missing() (found []string) {
	for _, l := range w.book.All() {
		if l.open() && len(found) < 10 {
			found = append(found, "  open: "+l.String())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.notices {
		if x.by != nil && x.news.Load() == 0 && len(found) < 10 {
			found = append(found, "  open: the notice of "+x.String())
		}
	}
	return found
}

// bonds returns the senders that watch or are watched or linked, when no activation is left.
func (w *world) bonds() (found []string) {
	for _, ref := range w.refs {
		d, err := w.sys.Detail(context.Background(), ref.PID())
		if err != nil || d.Watchers > 0 || len(d.Watches) > 0 || len(d.Links) > 0 {
			found = append(found, fmt.Sprintf("  bound: %s is linked with %v, watches %v, and has %d watchers: %v", ref, d.Links, d.Watches, d.Watchers, err))
		}
	}
	return found
}

// judge compares the letters with the books of the system, when it has shut down.
func (w *world) judge() {
	var dead, lost, unsure uint64
	for _, l := range w.book.All() {
		dead += uint64(l.dead.Load())
		got := l.got()
		switch {
		case got > 1, l.entries.Load() < l.forwards.Load():
			w.Report("doubled: %s", l)
		case l.refused.Load() && got > 0:
			w.Report("refused: %s", l)
		case l.way != told && !l.over.Load():
			w.Report("no end: %s", l)
		case got == 0 && l.unsure.Load():
			unsure++
		case got == 0 && !l.refused.Load():
			lost++
		}
	}
	st := w.sys.Stats()
	heard := dead + w.counts.deadNotes.Load()
	if unheard := st.DeadLetters - heard; heard > st.DeadLetters || unheard < lost || !w.early && unheard > lost+unsure {
		w.Report("lost: %d letters, perhaps %d more; of %d dead letters %d were events: %v", lost, unsure, st.DeadLetters, heard, st.DeadLettersByReason)
	}
	if w.early {
		return
	}
	if ran, most := w.counts.ran.Load(), w.counts.ran.Load()+w.counts.orders.Load(); st.Handled < ran || st.Handled > most {
		w.Report("books: %d handlers have run, Stats has %d, and %d at most", ran, st.Handled, most)
	}
	if w.counts.started.Load() > w.counts.ended.Load() {
		w.Report("end: %d activations have started, and %d ended", w.counts.started.Load(), w.counts.ended.Load())
	}
	for _, k := range w.keys {
		if k.living != nil && !w.kills {
			w.Report("end: an activation of key %s has had no Terminate", k.name)
		}
	}
}

// evidence describes the system as it stands.
func (w *world) evidence() []string {
	found := append([]string{w.String()}, w.missing()...)
	found = append(found, w.bonds()...)
	for info := range w.sys.Actors() {
		if info.Activity != "idle" || info.Mailbox > 0 || info.State != "running" {
			found = append(found, fmt.Sprintf("  actor: %+v", info))
		}
	}
	buf := make([]byte, 1<<20)
	return append(found, fmt.Sprintf("  %+v", w.sys.Stats()), string(buf[:runtime.Stack(buf, true)]))
}
