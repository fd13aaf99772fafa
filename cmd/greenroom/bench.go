package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

// Bounds of a bench run.
const (
	benchMaxConnections = 10_000
	benchMaxDuration    = 10 * time.Minute
	benchMaxMessages    = 100_000_000
	benchMaxEntities    = 10_000_000
	benchMaxInFlight    = 10_000
)

type benchOptions struct {
	mqtt                            string
	connections, entities, inFlight int
	messages                        int64
	rate                            float64
	duration                        time.Duration
}

func newBench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many durable messages a server on this machine takes.",
		Long: `Publish readings of three keys with QoS 1 over MQTT 3.1.1 to a server that runs
on this machine, and measure when they are acknowledged, that is, durable.

The entities are named bench-0, bench-1 and so on: use a data directory that can
be thrown away. It ends after --duration or --messages, whichever comes first.`,
		Example: `  greenroom serve --data /tmp/bench &
  greenroom bench --connections 50 --duration 10s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return bench(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.mqtt, "mqtt", server.DefaultMQTT, "address of the MQTT broker, on this machine")
	f.IntVar(&o.connections, "connections", 50, "MQTT connections")
	f.IntVar(&o.entities, "entities", 0, "entities to publish for, in turn (default one for each connection)")
	f.IntVar(&o.inFlight, "in-flight", 100, "messages of a connection that may wait for their acknowledgement")
	f.Int64Var(&o.messages, "messages", benchMaxMessages, "end after so many messages")
	f.Float64Var(&o.rate, "rate", 0, "messages a second in all; 0 is as many as possible")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "end after this time")
	return cmd
}

func (o *benchOptions) check() error {
	host, _, err := net.SplitHostPort(o.mqtt)
	if err != nil {
		return usagef("--mqtt: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return usagef("--mqtt %s: only a server on this machine may be loaded; 127.0.0.1:PORT is right", o.mqtt)
	}
	within := func(name string, value, least, most int64) error {
		if value < least || value > most {
			return usagef("--%s %d: %d to %d is right", name, value, least, most)
		}
		return nil
	}
	if o.entities == 0 {
		o.entities = o.connections
	}
	err = errors.Join(
		within("connections", int64(o.connections), 1, benchMaxConnections),
		within("entities", int64(o.entities), int64(o.connections), benchMaxEntities),
		within("in-flight", int64(o.inFlight), 1, benchMaxInFlight),
		within("messages", o.messages, 1, benchMaxMessages),
	)
	if err == nil && (o.duration <= 0 || o.duration > benchMaxDuration) {
		err = usagef("--duration %v: more than nothing and at most %v is right", o.duration, benchMaxDuration)
	}
	if err == nil && o.rate < 0 {
		err = usagef("--rate %v: 0 or more is right", o.rate)
	}
	return err
}

// benchRun is what the connections of a run share.
type benchRun struct {
	benchOptions
	left    atomic.Int64 // messages to send
	acked   atomic.Int64
	latency latencies
	began   time.Time
}

func bench(ctx context.Context, o benchOptions, stdout io.Writer) error {
	r := &benchRun{benchOptions: o}
	r.left.Store(o.messages)
	loaders := make([]*loader, o.connections)
	for i := range loaders {
		var err error
		if loaders[i], err = newLoader(ctx, r, i); err != nil {
			return err
		}
		defer loaders[i].close()
	}
	limited, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	r.began = time.Now()
	errs := make([]error, len(loaders))
	var wg sync.WaitGroup
	for i, l := range loaders {
		wg.Go(func() { errs[i] = l.run(limited) })
	}
	wg.Wait()
	took := time.Since(r.began)
	n := r.acked.Load()
	fmt.Fprintf(stdout, "%d connections, %d entities, %d in flight: %d messages of 3 values acknowledged in %v: %.0f messages/s, %.0f values/s, acknowledged after p50 %v, p99 %v, at most %v\n",
		o.connections, o.entities, o.inFlight, n, took.Round(time.Millisecond), float64(n)/took.Seconds(), 3*float64(n)/took.Seconds(),
		short(r.latency.quantile(0.5)), short(r.latency.quantile(0.99)), short(r.latency.max()))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return context.Cause(ctx)
}
