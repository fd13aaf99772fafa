package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/sqlite"
)

// journalOptions are the flags of the commands about a journal.
type journalOptions struct {
	dir, id, file string
	after         uint64
	limit         int
}

func newJournal() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Inspect a journal of package persist.",
		Long: `Inspect the journal that a program keeps with package persist/sqlite, even while the
program runs. Nothing is written to it.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJournalList(), newJournalShow(), newJournalVerify(), newJournalExport())
	for _, sub := range cmd.Commands() {
		sub.Args = usageArgs(cobra.NoArgs)
	}
	return cmd
}

// open opens the journal named by the flags.
func (o *journalOptions) open(ctx context.Context) (*sqlite.Journal, error) {
	switch {
	case o.dir == "":
		return nil, usagef("--journal must name the directory of a journal")
	case o.limit < 0:
		return nil, usagef("--limit must be 0 or more, not %d", o.limit)
	}
	return sqlite.Open(ctx, o.dir, sqlite.Options{ReadOnly: true})
}

// command makes cmd a command that reads the journal.
func (o *journalOptions) command(cmd *cobra.Command, run func(ctx context.Context, j persist.Journal, out io.Writer) error) *cobra.Command {
	cmd.Flags().StringVar(&o.dir, "journal", "", "directory of the journal")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		j, err := o.open(cmd.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		out := bufio.NewWriter(cmd.OutOrStdout())
		return errors.Join(run(cmd.Context(), j, out), out.Flush())
	}
	return cmd
}

func newJournalList() *cobra.Command {
	var o journalOptions
	cmd := o.command(&cobra.Command{
		Use:     "list",
		Short:   "List the ids in a journal and their numbers.",
		Example: "  greenroom journal list --journal data",
	}, func(ctx context.Context, j persist.Journal, out io.Writer) error {
		left := o.limit
		return eachID(ctx, j, o.id, func(l *persist.Loaded) error {
			if o.limit > 0 && left == 0 {
				return errEnough
			}
			left--
			_, err := fmt.Fprintln(out, summary(l))
			return err
		})
	})
	cmd.Flags().StringVar(&o.id, "after", "", "only ids after this one")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "list at most this many; 0 means all")
	return cmd
}

// errEnough ends a listing.
var errEnough = errors.New("enough")

// eachID calls f for the ids after after, in order, until it fails.
func eachID(ctx context.Context, j persist.Journal, after string, f func(l *persist.Loaded) error) error {
	const together = 64
	for {
		ids, err := j.IDs(ctx, after, together)
		if err != nil || len(ids) == 0 {
			return err
		}
		list, err := j.Load(ctx, ids)
		if err != nil {
			return err
		}
		for i := range list {
			if err := f(&list[i]); errors.Is(err, errEnough) {
				return nil
			} else if err != nil {
				return err
			}
		}
		after = ids[len(ids)-1]
	}
}

// summary returns a line about an id.
func summary(l *persist.Loaded) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\tnumber %d", l.ID, l.Last)
	if l.Erased > 0 {
		fmt.Fprintf(&text, ", erased up to %d", l.Erased)
	}
	if l.State != nil {
		fmt.Fprintf(&text, ", state of %d bytes at %d", len(l.State.Data), l.State.Number)
	}
	if l.Snapshot != nil {
		fmt.Fprintf(&text, ", snapshot of %d bytes at %d", len(l.Snapshot.Data), l.Snapshot.Number)
	}
	for _, c := range []struct {
		n    int
		what string
	}{{int(l.Sent), "messages sent"}, {len(l.Seen), "senders seen"}, {len(l.Reminders), "reminders"}} {
		if c.n > 0 {
			fmt.Fprintf(&text, ", %d %s", c.n, c.what)
		}
	}
	return text.String()
}

func newJournalShow() *cobra.Command {
	var o journalOptions
	cmd := o.command(&cobra.Command{
		Use:     "show",
		Short:   "Show what a journal contains for an id.",
		Example: "  greenroom journal show --journal data --id cart-42 --after 1000",
	}, o.show)
	cmd.Flags().StringVar(&o.id, "id", "", "the id")
	cmd.Flags().Uint64Var(&o.after, "after", 0, "only events with greater numbers")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "show at most this many events; 0 means all")
	return cmd
}

func (o *journalOptions) show(ctx context.Context, j persist.Journal, out io.Writer) error {
	if err := persist.CheckID(o.id); err != nil {
		return usagef("--id: %w", err)
	}
	list, err := j.Load(ctx, []string{o.id})
	if err != nil {
		return err
	}
	l := &list[0]
	if l.Last == 0 {
		return fmt.Errorf("the journal has nothing of %q", o.id)
	}
	fmt.Fprintln(out, summary(l))
	if l.State != nil {
		fmt.Fprintf(out, "state\t%s\n", describePayload(&l.State.Payload, l.State.Intact(l.ID, l.State.Number)))
	}
	for _, r := range l.Reminders {
		fmt.Fprintf(out, "reminder %q\t%s\t%s\n", r.Key, stamp(r.At), describePayload(&r.Payload, true))
	}
	left := o.limit
	return eachEvent(ctx, j, o.id, o.after, func(r *persist.Record) error {
		if o.limit > 0 && left == 0 {
			return errEnough
		}
		left--
		_, err := fmt.Fprintf(out, "%d\t%s\t%s\n", r.Number, stamp(r.Time), describePayload(&r.Payload, r.Type == "" || r.Intact(r.ID, r.Number)))
		return err
	})
}

// eachEvent calls f for the events of an id after a number, in order, until it fails.
func eachEvent(ctx context.Context, j persist.Journal, id string, after uint64, f func(r *persist.Record) error) error {
	for {
		page, err := j.Events(ctx, id, after, persist.PageRecords)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := f(&page[i]); errors.Is(err, errEnough) {
				return nil
			} else if err != nil {
				return err
			}
		}
		after = page[len(page)-1].Number
	}
}

// stamp formats a time in milliseconds since the epoch.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// describePayload returns a payload on one line.
func describePayload(p *persist.Payload, intact bool) string {
	text := readable(p.Data)
	if p.Type != "" {
		text = p.Type + "\t" + text
	}
	if !intact {
		text += "\tDAMAGED: its checksum is another"
	}
	return text
}

// readable returns CBOR in diagnostic notation, text as it is, and other data in hexadecimal.
func readable(data []byte) string {
	if text, err := cbor.Diagnose(data); err == nil {
		return text
	}
	if utf8.Valid(data) && strings.IndexFunc(string(data), unicode.IsControl) < 0 {
		return string(data)
	}
	return hex.EncodeToString(data)
}

func newJournalExport() *cobra.Command {
	var o journalOptions
	cmd := o.command(&cobra.Command{
		Use:   "export",
		Short: "Export a journal as NDJSON.",
		Long: `Write the contents of a journal, one object a line: for each id, in order, a line
with everything but its events, and then its events. Data is in base64.`,
		Example: "  greenroom journal export --journal data --file journal.ndjson",
	}, func(ctx context.Context, j persist.Journal, out io.Writer) error {
		if o.file == "" {
			return exportJournal(ctx, j, out)
		}
		f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		to := bufio.NewWriter(f)
		return errors.Join(exportJournal(ctx, j, to), to.Flush(), f.Sync(), f.Close())
	})
	cmd.Flags().StringVar(&o.file, "file", "", "new file to write (default standard output)")
	return cmd
}

// Lines of an export.
type (
	payloadJSON struct {
		Number uint64 `json:"number,omitempty"`
		Type   string `json:"type,omitempty"`
		Data   []byte `json:"data"`
		Sum    uint32 `json:"sum"`
	}
	reminderJSON struct {
		Key string `json:"key"`
		At  int64  `json:"at"`
		payloadJSON
	}
	actorJSON struct {
		Actor     string            `json:"actor"`
		Last      uint64            `json:"last"`
		Erased    uint64            `json:"erased,omitempty"`
		Sent      uint64            `json:"sent,omitempty"`
		Seen      map[string]uint64 `json:"seen,omitempty"`
		State     *payloadJSON      `json:"state,omitempty"`
		Reminders []reminderJSON    `json:"reminders,omitempty"`
	}
	eventJSON struct {
		Event string `json:"event"`
		Time  int64  `json:"time"`
		payloadJSON
	}
)

func toJSON(p *persist.Payload, number uint64) payloadJSON {
	return payloadJSON{number, p.Type, p.Data, p.Sum}
}

func exportJournal(ctx context.Context, j persist.Journal, out io.Writer) error {
	to := json.NewEncoder(out)
	return eachID(ctx, j, "", func(l *persist.Loaded) error {
		line := actorJSON{Actor: l.ID, Last: l.Last, Erased: l.Erased, Sent: l.Sent}
		if l.State != nil {
			state := toJSON(&l.State.Payload, l.State.Number)
			line.State = &state
		}
		for _, s := range l.Seen {
			if line.Seen == nil {
				line.Seen = make(map[string]uint64)
			}
			line.Seen[s.From] = s.Number
		}
		for _, r := range l.Reminders {
			line.Reminders = append(line.Reminders, reminderJSON{r.Key, r.At, toJSON(&r.Payload, 0)})
		}
		if err := to.Encode(line); err != nil {
			return err
		}
		return eachEvent(ctx, j, l.ID, 0, func(r *persist.Record) error {
			return to.Encode(eventJSON{r.ID, r.Time, toJSON(&r.Payload, r.Number)})
		})
	})
}
