package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/server"
)

type serveOptions struct {
	data, store, http, mqtt string
	demo                    bool

	hot, window int64 // MiB
	idleAfter   time.Duration
}

// maxMiB is far beyond any machine, and its bytes are still an int64.
const maxMiB = 1 << 30

// entities sets up the entity runtime.
func (o *serveOptions) entities() (c entity.Config, err error) {
	for name, mib := range map[string]int64{"hot-mib": o.hot, "window-mib": o.window} {
		if mib < 1 || mib > maxMiB {
			return c, usagef("--%s %d: 1 to %d is right", name, mib, maxMiB)
		}
	}
	if o.idleAfter < 0 {
		return c, usagef("--idle-after %v: a time, or 0 for never, is right", o.idleAfter)
	}
	c = entity.Config{HotBytes: o.hot << 20, WindowBytes: o.window << 20, IdleAfter: o.idleAfter}
	if o.idleAfter == 0 {
		c.IdleAfter = -1
	}
	return c, nil
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve MQTT, HTTP and the dashboard.",
		Long: `Serve MQTT, HTTP and the dashboard in one process.

Devices publish readings to the MQTT topic e/{id}/telemetry, where {id} names
the entity, as JSON: {"temperature":21.5}, or with the time of the measurement
in milliseconds {"ts":1451649600512,"values":{"temperature":21.5}}, or an array
of either. With QoS 1 the acknowledgement comes when the readings are on disk.

Without --data or --store the readings are kept in ./` + server.DefaultDataDir + `; with --demo
in a temporary directory that is removed at the end. Only addresses of this
machine can be served on, because this version has no credentials.

--store postgres://user@host/database keeps them in PostgreSQL 14 or newer, in
the schema ` + postgres.DefaultSchema + ` or the one that ?search_path= names. A password on
the command line can be seen by everybody on this machine; the environment
variable PGPASSWORD, or a file that PGPASSFILE names, keeps it from them.

SIGTERM and Ctrl-C finish what was accepted; a second one does not wait.`,
		Example: `  greenroom serve --demo
  greenroom serve --data /var/lib/greenroom --http 127.0.0.1:9090
  greenroom serve --store 'postgres://greenroom@db.example.org/plant?sslmode=verify-full'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.store != "" && o.data != "" {
				return usagef("--data and --store: one of them says where the readings are")
			}
			if err := server.CheckStore(cmp.Or(o.store, server.DefaultDataDir)); err != nil {
				return usagef("--store: %w", err)
			}
			return serve(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.data, "data", "", "directory of the readings (default ./"+server.DefaultDataDir+"; with --demo a temporary one)")
	cmd.Flags().StringVar(&o.store, "store", "", "where the readings are kept: a directory, or postgres://user@host/database")
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the HTTP API and the dashboard; port 0 takes a free one")
	cmd.Flags().StringVar(&o.mqtt, "mqtt", server.DefaultMQTT, "address of the MQTT broker; port 0 takes a free one")
	cmd.Flags().BoolVar(&o.demo, "demo", false, "publish readings of two rooms that the program makes up")
	cmd.Flags().Int64Var(&o.hot, "hot-mib", entity.DefaultHotBytes>>20, "memory for entities at work, in MiB; those not used for longest are on disk only")
	cmd.Flags().DurationVar(&o.idleAfter, "idle-after", entity.DefaultIdleAfter, "an entity idle for so long is on disk only, some seconds later; 0 is never")
	cmd.Flags().Int64Var(&o.window, "window-mib", entity.DefaultWindowBytes>>20, "memory for readings that are not on disk yet, in MiB; when it is full, devices wait")
	return cmd
}

func serve(ctx context.Context, o serveOptions, stdout, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	entities, err := o.entities()
	if err != nil {
		return err
	}
	where := o.data
	switch {
	case o.store != "":
		where = server.StoreName(o.store)
	case o.data == "" && o.demo:
		if o.data, err = os.MkdirTemp("", "greenroom-demo-"); err != nil {
			return fmt.Errorf("make a directory for the demo: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.data)) }()
		where = o.data + " (removed at the end; keep the readings with --data DIR)"
	case o.data == "":
		o.data = server.DefaultDataDir
		where = "./" + o.data
	}
	s, err := server.New(ctx, server.Config{DataDir: o.data, Store: o.store, HTTP: o.http, MQTT: o.mqtt, Version: version(), Entity: entities, Logger: log})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Greenroom %s\n  dashboard  http://%s/\n  mqtt       mqtt://%s  publish to e/{id}/telemetry\n  data       %s\n",
		version(), s.HTTPAddr(), s.MQTTAddr(), where)
	if !o.demo {
		return s.Run(ctx)
	}
	// The demo ends before the server does, so that it is not seen to fail.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	ran := make(chan error, 1)
	go func() { ran <- s.Run(serving) }()
	demoing, stopDemo := context.WithCancel(ctx)
	defer stopDemo()
	demo := make(chan error, 1)
	go func() { demo <- serveDemo(demoing, s.MQTTAddr(), s.HTTPAddr()) }()
	select {
	case err = <-ran: // it failed, and the demo does with it
		return err
	case err = <-demo:
		if ctx.Err() != nil { // it was stopped
			err = nil
		}
		stopServing()
		return errors.Join(err, <-ran)
	}
}
