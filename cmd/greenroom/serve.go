package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

type serveOptions struct {
	data, http, mqtt string
	demo             bool
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

Without --data the readings are kept in ./` + server.DefaultDataDir + `; with --demo in a
temporary directory that is removed at the end. Only addresses of this machine
can be served on, because this version has no credentials.

SIGTERM and Ctrl-C finish what was accepted; a second one does not wait.`,
		Example: `  greenroom serve --demo
  greenroom serve --data /var/lib/greenroom --http 127.0.0.1:9090`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.data, "data", "", "directory of the readings (default ./"+server.DefaultDataDir+"; with --demo a temporary one)")
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the HTTP API and the dashboard; port 0 takes a free one")
	cmd.Flags().StringVar(&o.mqtt, "mqtt", server.DefaultMQTT, "address of the MQTT broker; port 0 takes a free one")
	cmd.Flags().BoolVar(&o.demo, "demo", false, "publish readings of two rooms that the program makes up")
	return cmd
}

func serve(ctx context.Context, o serveOptions, stdout, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	where := o.data
	if o.data == "" && o.demo {
		if o.data, err = os.MkdirTemp("", "greenroom-demo-"); err != nil {
			return fmt.Errorf("make a directory for the demo: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.data)) }()
		where = o.data + " (removed at the end; keep the readings with --data DIR)"
	} else if o.data == "" {
		o.data = server.DefaultDataDir
		where = "./" + o.data
	}
	s, err := server.New(ctx, server.Config{DataDir: o.data, HTTP: o.http, MQTT: o.mqtt, Version: version(), Logger: log})
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
