package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/entity/postgres"
)

const verifyMaxRounds = 10_000

type verifyOptions struct {
	data, store string
	rounds      int
	connections int
	seed        uint64
}

func newVerify() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Test on this machine's disk that nothing acknowledged is lost by a crash.",
		Long: `Start a server, load it with readings, patches of attributes, relations and
mappings, and kill it (SIGKILL) at a random moment. Start it again, and compare what
it has with what it had acknowledged. Again and again, with the same data.

It works in a new directory below --data, which is removed at the end: put it on
the disk that is to be tested. A kill leaves what the kernel has of the files as it
is; only pulling the plug tests the disk's own promise to have written. With --store
postgres://user@host/database it works in a new schema of that database, which is
removed at the end as well, and kills its own server, not PostgreSQL.

The exit code is 1 when anything was lost or doubled.`,
		Example: `  greenroom verify --data /var/lib --rounds 20
  greenroom verify --store 'postgres://greenroom@db.example.org/plant'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rounds < 1 || o.rounds > verifyMaxRounds {
				return usagef("--rounds %d: 1 to %d is right", o.rounds, verifyMaxRounds)
			}
			if o.connections < 1 || o.connections > benchMaxConnections {
				return usagef("--connections %d: 1 to %d is right", o.connections, benchMaxConnections)
			}
			if o.store != "" && !postgres.IsURL(o.store) {
				return usagef("--store: postgres://user@host/database is right; for a directory there is --data")
			}
			if o.store != "" && cmd.Flags().Changed("data") {
				return usagef("--data and --store: one of them says where to work")
			}
			if o.seed == 0 {
				o.seed = rand.Uint64()
			}
			return verify(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.data, "data", ".", "directory on the disk that is to be tested")
	cmd.Flags().StringVar(&o.store, "store", "", "database that is to be tested, postgres://user@host/database, in place of a directory")
	cmd.Flags().IntVar(&o.rounds, "rounds", 10, "how often the server is killed")
	cmd.Flags().IntVar(&o.connections, "connections", 8, "MQTT connections that publish")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "for the moments of the kills (default a random one)")
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

// wrong tells whether a promise was broken. What was sent and not acknowledged may
// be there or not.
func (o *outcome) wrong() bool { return o.lost+o.doubled+o.invented > 0 }

func (o *outcome) String() string {
	text := fmt.Sprintf("acknowledged %d, lost %d, doubled %d", o.acknowledged, o.lost, o.doubled)
	if o.invented > 0 {
		text += fmt.Sprintf(", never sent %d", o.invented)
	}
	return text
}

// kinds are what is written and compared.
var kinds = []string{"readings", "patches", "relations", "mapped values", "mapped sums"}

func verify(ctx context.Context, o verifyOptions, stdout io.Writer) (err error) {
	place, err := newScratch(o.data, o.store, "verify")
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, place.remove()) }()
	fmt.Fprintf(stdout, "verifying in %s with --seed %d\n", place.name, o.seed)
	rng := rand.New(rand.NewPCG(o.seed, 0))
	v := &verifier{options: o, place: place}
	if v.child, err = startChildOn(ctx, place); err != nil {
		return err
	}
	defer func() { _ = v.child.kill() }() // it may be gone already
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
	return v.report(totals, stdout)
}

func (v *verifier) report(totals map[string]outcome, stdout io.Writer) error {
	var all outcome
	for _, kind := range kinds {
		r := totals[kind]
		all.add(r)
		fmt.Fprintf(stdout, "%-14s %s\n", kind, &r)
	}
	fmt.Fprintf(stdout, "%-14s %s, by %d kills\n", "in all", &all, v.options.rounds)
	if all.wrong() {
		return errors.New("verify: the server has broken its promise, or the disk has; keep what is printed above and report it")
	}
	return nil
}

// verifyID is the id of an entity of a round. Without a hyphen it can stand in a
// statement as it is.
func verifyID(round int, what string) string {
	return fmt.Sprintf("verify_%d_%s", round, strings.ReplaceAll(what, "-", "_"))
}
