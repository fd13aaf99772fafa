package sim

import (
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Event is one line of a trace.
type Event struct {
	Step    int
	At      time.Duration // virtual time since the beginning of the run
	Kind    string        // turn, resume, pipe, frame, script, stash, log, a fault, or FAIL
	Actor   actor.PID     // whose step it is; zero when it is nobody's
	From    actor.PID     // who sent what the turn handles; zero from outside
	Message string        // the type of what the turn handles, or what there is to say
	Content string        // what the message or the frame says, at most 160 bytes of it; empty for what nobody has sent
}

// String returns the event as one line. Actors are named by system and path.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5d %12v %-7s", e.Step, e.At, e.Kind)
	if !e.Actor.IsZero() {
		fmt.Fprintf(&b, " %s", place(e.Actor))
	}
	if !e.From.IsZero() {
		fmt.Fprintf(&b, " <- %s", place(e.From))
	}
	if e.Message != "" {
		fmt.Fprintf(&b, " %s", e.Message)
	}
	if e.Content != "" {
		fmt.Fprintf(&b, " %s", e.Content)
	}
	return b.String()
}

// contentMost is how many bytes of a message a trace shows.
const contentMost = 160

// address finds a pointer as package fmt prints it: it would be another one in each run.
var address = regexp.MustCompile(`\b0x[0-9a-f]{6,16}\b`)

// returns finds the [actor.Returns] of a request, which says nothing.
var returns = regexp.MustCompile(`\bReturns:\{\} ?`)

// contentOf prints a message in one line.
func contentOf(msg any) string {
	form := "%+v"
	if b, ok := msg.([]byte); ok {
		form, msg = "%q", b[:min(len(b), contentMost)]
	}
	text := address.ReplaceAllString(fmt.Sprintf(form, msg), "0x…")
	text = strings.Join(strings.Fields(returns.ReplaceAllString(text, "")), " ")
	if len(text) > contentMost {
		text = strings.ToValidUTF8(text[:contentMost-len("…")], "") + "…"
	}
	return text
}

// place returns where an actor is, which is easier to read than its address.
func place(p actor.PID) string { return p.Node() + p.Path() }

// trace is what happened: always as a number, in detail when somebody wants to know.
type trace struct {
	detailed bool
	hash     uint64
	events   []Event
}

const hashPrime = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio

func (t *trace) mix(x uint64) { t.hash = bits.RotateLeft64((t.hash^x)*hashPrime, 29) }

func (t *trace) mixText(s string) {
	for i := range len(s) {
		t.mix(uint64(s[i]))
	}
}

// add notes an event that is not a step.
func (t *trace) add(e Event) {
	t.mixText(e.Kind)
	if t.detailed {
		t.events = append(t.events, e)
	}
}

// step notes a step about to be run.
func (t *trace) step(w *World, c *Choice) {
	at := w.Elapsed()
	t.mix(c.key)
	t.mix(uint64(at))
	if !t.detailed {
		if c.kind == chooseStep {
			t.mix(uint64(c.step.Kind()))
		}
		return
	}
	e := Event{Step: w.steps, At: at}
	switch c.kind {
	case chooseFrame:
		e.Kind, e.Message = "frame", fmt.Sprintf("%s %T", c.frame.link, c.frame.content)
		e.Content = contentOf(c.frame.content)
	case chooseEvent:
		e.Kind = "script"
	default:
		t.mix(uint64(c.step.Kind()))
		e.Actor = c.step.PID()
		switch c.step.Kind() {
		case actor.StepResume:
			e.Kind = "resume"
		case actor.StepPipe:
			e.Kind = "pipe"
		default:
			e.Kind = "turn"
			e.Message, e.From = c.step.Next()
			if msg, ok := c.step.Message(); ok {
				e.Content = contentOf(msg)
			}
		}
	}
	t.events = append(t.events, e)
}

// run takes a step of an actor, and notes when that has changed how much it has set aside.
func (t *trace) run(w *World, c *Choice) {
	if !t.detailed {
		c.step.Run()
		return
	}
	who, number, before := c.step.PID(), c.step.Actor(), c.step.Stashed()
	c.step.Run()
	if c.step.Actor() != number { // it has ended, and another one has its place
		return
	}
	if now := c.step.Stashed(); now != before {
		t.add(Event{Step: w.steps, At: w.Elapsed(), Kind: "stash", Actor: who, Message: fmt.Sprintf("%d set aside", now)})
	}
}

// note adds what the world does to the trace.
func (w *World) note(kind, text string) {
	w.trace.add(Event{Step: w.steps, At: w.Elapsed(), Kind: kind, Message: text})
}

// writeText writes a trace, an event a line, and what repeats itself once.
func writeText(out io.Writer, f *Failure) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", f)
	for _, s := range folded(f.Trace) {
		for _, line := range s.lines() {
			fmt.Fprintln(&b, line)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// diagramMost is how many events of a trace a diagram has: more cannot be read.
const diagramMost = 200

// writeDiagram writes the end of a trace as a sequence diagram in Mermaid's language.
func writeDiagram(out io.Writer, f *Failure) error {
	stretches, _ := lastOf(folded(f.Trace), diagramMost)
	names := make(map[actor.PID]string)
	var head, body strings.Builder
	name := func(p actor.PID) string {
		n, ok := names[p]
		if !ok {
			n = fmt.Sprintf("p%d", len(names))
			names[p] = n
			label := "outside"
			if !p.IsZero() {
				label = place(p)
			}
			fmt.Fprintf(&head, "    participant %s as %s\n", n, plain(label))
		}
		return n
	}
	name(actor.PID{})
	for _, s := range stretches {
		if s.times > 1 {
			fmt.Fprintf(&body, "    loop %d times\n", s.times)
		}
		for _, e := range s.round() {
			body.WriteString(arrow(e, name))
		}
		if s.times > 1 {
			body.WriteString("    end\n")
		}
	}
	_, err := fmt.Fprintf(out, "sequenceDiagram\n    autonumber\n%s%s", head.String(), body.String())
	return err
}

// arrow returns the line of a diagram for an event; name returns that of an actor.
func arrow(e Event, name func(actor.PID) string) string {
	what, known := map[string]string{"turn": "signals", "resume": "continues", "pipe": "work of a Pipe"}[e.Kind]
	switch {
	case e.Kind == "turn" && e.Message != "":
		return fmt.Sprintf("    %s->>%s: %s\n", name(e.From), name(e.Actor), plain(e.Message+" "+e.Content))
	case e.Actor.IsZero():
		return fmt.Sprintf("    note over p0: %s\n", plain(e.Kind+" "+e.Message))
	case !known:
		what = plain(e.Kind + " " + e.Message)
	}
	return fmt.Sprintf("    note over %s: %s\n", name(e.Actor), what)
}

// plain makes a text that Mermaid takes as it is.
func plain(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.NewReplacer(";", ",", "#", " ", ":", " ", "%", " ").Replace(s)
}
