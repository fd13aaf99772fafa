package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/persist"
)

func newJournalVerify() *cobra.Command {
	var o journalOptions
	return o.command(&cobra.Command{
		Use:   "verify",
		Short: "Check that a journal is intact.",
		Long: `Read a journal from its beginning, and check that the events of each id are in
order, that their checksums are correct, and that the feeds have each event
once. The exit code is 1 if something is wrong.`,
		Example: "  greenroom journal verify --journal data",
	}, func(ctx context.Context, j persist.Journal, out io.Writer) error {
		v := journalVerifier{j: j, out: out, fed: make(map[string]fed)}
		return v.run(ctx)
	})
}

// journalVerifier counts the contents of a journal, and prints what is wrong with it.
type journalVerifier struct {
	j   persist.Journal
	out io.Writer
	fed map[string]fed

	ids, events, states, snapshots, messages, faults int
}

// fed is what the feeds contain for an id.
type fed struct {
	events int
	last   uint64
}

func (v *journalVerifier) fault(format string, args ...any) {
	v.faults++
	fmt.Fprintf(v.out, format+"\n", args...)
}

// run reads the feeds first: what is written meanwhile is then only in what is read later.
func (v *journalVerifier) run(ctx context.Context) error {
	for part := range persist.Parts {
		if err := v.part(ctx, part); err != nil {
			return err
		}
	}
	if err := eachID(ctx, v.j, "", func(l *persist.Loaded) error { return v.id(ctx, l) }); err != nil {
		return err
	}
	for id, f := range v.fed {
		v.fault("%s: the feed has %d events of an id that is not there", id, f.events)
	}
	fmt.Fprintf(v.out, "%d ids, %d events, %d states, %d snapshots, %d messages to be delivered\n", v.ids, v.events, v.states, v.snapshots, v.messages)
	if v.faults > 0 {
		return fmt.Errorf("%d %s wrong", v.faults, map[bool]string{true: "thing is", false: "things are"}[v.faults == 1])
	}
	return nil
}

func (v *journalVerifier) part(ctx context.Context, part int) error {
	for after := uint64(0); ; {
		page, err := v.j.Feed(ctx, part, after, persist.PageRecords)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			r := &page[i]
			if r.Position <= after || persist.PartOf(r.ID) != part {
				v.fault("%s: event %d is at position %d of part %d, after %d", r.ID, r.Number, r.Position, part, after)
			}
			after = r.Position
			f := v.fed[r.ID]
			if r.Number <= f.last {
				v.fault("%s: event %d is in the feed after %d", r.ID, r.Number, f.last)
			}
			f.last = r.Number
			if !r.Erased {
				f.events++
			}
			v.fed[r.ID] = f
		}
	}
	for after := uint64(0); ; {
		page, err := v.j.Outbox(ctx, part, after, persist.PageRecords)
		if err != nil || len(page) == 0 {
			return err
		}
		v.messages += len(page)
		after = page[len(page)-1].Position
	}
}

func (v *journalVerifier) id(ctx context.Context, l *persist.Loaded) error {
	v.ids++
	if s := l.State; s != nil {
		v.states++
		v.payload(l, "the state", &s.Payload, s.Number)
	}
	for below := l.Last + 1; ; {
		s, err := v.j.Snapshot(ctx, l.ID, below)
		if err != nil {
			return err
		}
		if s.Number == 0 {
			break
		}
		v.snapshots++
		v.payload(l, "the snapshot", &s.Payload, s.Number)
		below = s.Number
	}
	f := v.fed[l.ID]
	delete(v.fed, l.ID)
	events, last := 0, l.Erased
	if err := eachEvent(ctx, v.j, l.ID, 0, func(r *persist.Record) error {
		v.events++
		if r.Number <= last {
			v.fault("%s: event %d comes after %d", l.ID, r.Number, last)
		}
		last = r.Number
		if r.Number <= f.last {
			events++
		}
		if r.Type != "" {
			v.payload(l, "event", &r.Payload, r.Number)
		}
		return nil
	}); err != nil {
		return err
	}
	if events != f.events && l.Erased <= f.last {
		v.fault("%s: it has %d events up to %d, and the feed has %d", l.ID, events, f.last, f.events)
	}
	return nil
}

func (v *journalVerifier) payload(l *persist.Loaded, what string, p *persist.Payload, number uint64) {
	if !p.Intact(l.ID, number) {
		v.fault("%s: %s %d is damaged: its checksum is another", l.ID, what, number)
	}
}
