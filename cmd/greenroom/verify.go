package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/server"
)

const verifyMaxRounds = 10_000

type verifyOptions struct {
	data, store string
	rounds      int
	connections int
	seed        uint64
	full, check bool
}

func newVerify() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Test that a crash on this machine's disk loses nothing that was acknowledged.",
		Long: `Start a server and load it with readings, attribute patches, relations, types, mappings,
rollups, retention and deletions, replace a mapping, read its streams and entity tags
meanwhile, let it pack its history continually in every second round, and kill it
(SIGKILL) at a random moment. Start it again, let a device resend what was not
acknowledged, and compare the server's data with what it acknowledged or showed before.
Repeat this with the same data.

The data is kept in a new directory below --data, which must be on the disk to
test and is removed at the end. A kill does not affect what the kernel has
buffered; only cutting the power tests whether the disk itself keeps what it has
confirmed. With --store postgres://user@host/database the data is kept in a new
schema of that database, which is removed as well, and the server that is
killed is Greenroom's, not PostgreSQL.

With --full, the disk is filled in each round before the kill, and the server is
also started on the full disk. --data must be on a small file system of its own.

With --check, verify only reads the store of a server at --data or --store, which
must not be running: each page of the files, and each entity, relation and change.
It prints what is damaged and what is contradictory.

The exit code is 1 if anything was lost or duplicated, or is damaged.`,
		Example: `  greenroom verify --data /var/lib --rounds 20
  greenroom verify --store 'postgres://greenroom@db.example.org/plant'
  greenroom verify --check --data /var/lib/greenroom`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rounds < 1 || o.rounds > verifyMaxRounds {
				return usagef("--rounds must be an integer from 1 to %d, not %d", verifyMaxRounds, o.rounds)
			}
			if o.connections < 1 || o.connections > benchMaxConnections {
				return usagef("--connections must be an integer from 1 to %d, not %d", benchMaxConnections, o.connections)
			}
			if o.store != "" && !postgres.IsURL(o.store) {
				return usagef("--store must be of the form postgres://user@host/database; use --data for a directory")
			}
			if o.store != "" && cmd.Flags().Changed("data") {
				return usagef("only one of --data and --store may be given")
			}
			if o.check {
				return examine(cmd.Context(), cmp.Or(o.store, o.data), cmd.OutOrStdout())
			}
			if o.store != "" && o.full {
				return usagef("--full fills the disk of --data, and must not be given with --store")
			}
			if o.seed == 0 {
				o.seed = rand.Uint64()
			}
			return verify(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.data, "data", ".", "directory on the disk to test")
	cmd.Flags().StringVar(&o.store, "store", "", "database to test, postgres://user@host/database, instead of a directory")
	cmd.Flags().IntVar(&o.rounds, "rounds", 10, "number of times to kill the server")
	cmd.Flags().IntVar(&o.connections, "connections", 8, "MQTT connections that publish")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "seed for the times of the kills (default random)")
	cmd.Flags().BoolVar(&o.full, "full", false, "fill the disk in each round; less than 1 GiB of it must be free")
	cmd.Flags().BoolVar(&o.check, "check", false, "read the store at --data or --store, and print what is damaged")
	return cmd
}

// outcome counts what was acknowledged, and what became of it.
type outcome struct{ acknowledged, lost, doubled, invented int64 }

func (o *outcome) add(p outcome) {
	o.acknowledged += p.acknowledged
	o.lost += p.lost
	o.doubled += p.doubled
	o.invented += p.invented
}

// wrong reports whether a guarantee was violated. Data that was sent and not acknowledged may be
// there or not.
func (o *outcome) wrong() bool { return o.lost+o.doubled+o.invented > 0 }

func (o *outcome) String() string {
	text := fmt.Sprintf("acknowledged %d, lost %d, doubled %d", o.acknowledged, o.lost, o.doubled)
	if o.invented > 0 {
		text += fmt.Sprintf(", never sent %d", o.invented)
	}
	return text
}

// kinds are the kinds of data that are written and compared.
var kinds = []string{
	"readings", "patches", "relations", "mapped values", "mapped sums", "types", "deletions", "rollups", "entity tags", "streamed", "sent again", "replaced mappings", "trimmed",
}

// verifySealAfter is so short that history is sealed while it is still written, so that kills and
// late values meet the sealer.
const verifySealAfter = 200 * time.Millisecond

func verify(ctx context.Context, o verifyOptions, stdout io.Writer) (err error) {
	place, err := newScratch(o.data, o.store, "verify")
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, place.remove()) }()
	fmt.Fprintf(stdout, "verifying in %s with --seed %d\n", place.name, o.seed)
	rng := rand.New(rand.NewPCG(o.seed, 0))
	v := &verifier{options: o, place: place}
	if v.child, err = startChild(ctx, place, "--seal-after", verifySealAfter.String()); err != nil {
		return err
	}
	defer func() {
		if v.child != nil { // it may have ended already
			_ = v.child.kill()
		}
	}()
	if err := v.child.client.do(ctx, "PUT", "/v1/retention/verify", "application/json", `{"key":"kept","raw":"30d","tiers":[{"step":"5m"},{"step":"1h"}]}`, nil); err != nil {
		return err
	}
	if err := v.child.client.do(ctx, "PUT", "/v1/retention/trimmed", "application/json", fmt.Sprintf(`{"key":"trimmed","raw":"%dd"}`, verifyKeptDays), nil); err != nil {
		return err
	}
	totals := make(map[string]outcome)
	for round := range o.rounds {
		results, err := v.round(ctx, round, time.Duration(rng.Int64N(int64(verifyLatest))))
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		var all outcome
		for kind, r := range results {
			all.add(r)
			sum := totals[kind]
			sum.add(r)
			totals[kind] = sum
		}
		fmt.Fprintf(stdout, "round %d: %s\n", round+1, &all)
	}
	if err := v.child.kill(); err != nil {
		return err
	}
	return errors.Join(v.report(totals, stdout), examine(ctx, place.store, stdout))
}

func (v *verifier) report(totals map[string]outcome, stdout io.Writer) error {
	var all outcome
	for _, kind := range kinds {
		r := totals[kind]
		all.add(r)
		fmt.Fprintf(stdout, "%-17s %s\n", kind, &r)
	}
	fmt.Fprintf(stdout, "%-17s %s, by %d kills\n", "in all", &all, v.options.rounds)
	fmt.Fprintf(stdout, "the history was packed %d times beside the writers\n", v.packings)
	if all.wrong() {
		return errors.New("verify: the server has broken its promise, or the disk has; keep what is printed above and report it")
	}
	return nil
}

// maxFound bounds the printed defects of a store.
const maxFound = 100

// examine reads the store of a server and prints its defects.
func examine(ctx context.Context, address string, stdout io.Writer) error {
	n := 0
	read, err := server.Examine(ctx, address, slog.New(slog.DiscardHandler), func(err error) {
		if n++; n <= maxFound {
			fmt.Fprintln(stdout, err)
		}
	})
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	fmt.Fprintf(stdout, "%d entities, %d latest values, %d attributes, %d relations, %d commands, %d changes\n", read.Entities, read.Latest, read.Attributes, read.Relations, read.Commands, read.Changes)
	if n > 0 {
		return fmt.Errorf("verify: %d things are wrong with the store; keep its files, and restore a backup into another directory", n)
	}
	fmt.Fprintln(stdout, "nothing is wrong with the store")
	return nil
}

// verifyID returns the id of an entity of a round. Without a hyphen, it needs no quotes in a
// statement.
func verifyID(round int, what string) string {
	return fmt.Sprintf("verify_%d_%s", round, strings.ReplaceAll(what, "-", "_"))
}
