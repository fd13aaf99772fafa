package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// Parameters of the shapes secure and connects besides publishing: idle connections, and devices that
// keep connecting with name and password.
const (
	idleConnections  = 10_000
	idleWorkers      = 32
	idleSettle       = 3 * time.Second // until the memory for connecting is released
	connectRate      = 1000
	connectWorkers   = 64
	connectPasswords = 200 // at most; and no more than entities
	firstWorkers     = 4
	costConnects     = 2000 // in each round
	costWorkers      = 8
)

// runSecure compares a server with TLS and credentials with one without.
func runSecure(ctx context.Context, s *suite) (err error) {
	place, err := newScratch(cmp.Or(s.options.data, "."), "", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.remove()) }()
	g := &suite{options: s.options, stdout: s.stdout, place: place}
	if g.child, err = startGuarded(ctx, place); err != nil {
		return err
	}
	defer func() { _ = g.child.kill() }() // it may have ended already
	if err := secureIngest(ctx, s, g); err != nil {
		return err
	}
	for _, idle := range []struct {
		what string
		at   *suite
	}{{"plain", s}, {"with TLS and a token each", g}} {
		if err := idle.at.idle(ctx, idle.what); err != nil {
			return err
		}
	}
	return nil
}

// runConnects measures the others beside devices that keep connecting with name and password, and
// beside strangers who keep connecting without credentials, or with wrong ones.
func runConnects(ctx context.Context, s *suite) (err error) {
	if err := s.child.kill(); err != nil {
		return err
	}
	logins := min(connectPasswords, s.entities(connectPasswords))
	withPasswords := func(ctx context.Context, place scratch) (*child, error) {
		c, err := startGuarded(ctx, place)
		if err == nil {
			err = c.addPasswords(ctx, logins)
		}
		return c, err
	}
	if s.child, err = withPasswords(ctx, s.place); err != nil {
		return err
	}
	began := time.Now()
	if err := s.child.firstLogins(ctx, logins); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "  %d first logins by password, each with an argon2id: %.0f/s\n", logins, float64(logins)/time.Since(began).Seconds())
	if err := s.printCosts(ctx, logins); err != nil {
		return err
	}
	elsewhere := func(ctx context.Context, place scratch) (*child, error) {
		c, err := withPasswords(ctx, place)
		if err == nil {
			err = c.firstLogins(ctx, logins)
		}
		return c, err
	}
	return s.beside(ctx, elsewhere,
		nuisance{"connects by password", "logins", func(ctx context.Context, at *child) (int64, *latencies, error) {
			return connectByPassword(ctx, at, logins)
		}},
		nuisance{"strangers", "connects", strangers},
	)
}

// secureIngest compares how many messages both servers accept, in turns.
func secureIngest(ctx context.Context, s, g *suite) error {
	var plain, guarded float64
	for range s.options.besideRounds() {
		for _, side := range []struct {
			what string
			at   *suite
			sum  *float64
		}{{"plain", s, &plain}, {"TLS and tokens", g, &guarded}} {
			r := side.at.publisher("secure", side.at.entities(10_000), meterMessage)
			if side.at.publish(ctx, side.what, r); side.at.err != nil {
				return side.at.err
			}
			*side.sum += float64(r.acked.Load()) / r.took.Seconds()
		}
	}
	fmt.Fprintf(s.stdout, "  with TLS and tokens %.2f of the messages/s without\n", guarded/plain)
	return nil
}

// idle holds idle connections, and prints their cost.
func (s *suite) idle(ctx context.Context, what string) error {
	n := min(idleConnections, s.entities(idleConnections))
	before, err := s.child.figures(ctx)
	if err != nil {
		return err
	}
	conns := make([]net.Conn, n)
	defer func() {
		for _, nc := range conns {
			if nc != nil {
				_ = nc.Close()
			}
		}
	}()
	began := time.Now()
	err = divided(n, idleWorkers, func(i int) (err error) {
		h := s.child.link.helloOf(fmt.Sprintf("idle-%d", i), i)
		conns[i], err = s.child.link.connect(ctx, &h)
		return err
	})
	took := time.Since(began)
	if err != nil {
		return err
	}
	if err := pause.For(ctx, idleSettle); err != nil {
		return err
	}
	after, err := s.child.figures(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "  %d idle connections, %s: %.1f KB each, memory %.0f MB; connected in %v\n",
		n, what, (after.rss-before.rss)/float64(n)/1e3, after.rss/1e6, took.Round(time.Millisecond))
	return nil
}

// addPasswords creates principals that log in with name and password.
func (c *child) addPasswords(ctx context.Context, n int) error {
	for i := range n {
		name, password := byPassword(i)
		p := principalJSON{Name: name, Password: password, Grants: []grantJSON{{Role: "device", Filter: benchDevices}}}
		if err := c.addPrincipal(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}

func byPassword(i int) (name, password string) {
	return fmt.Sprintf("pw-%d", i), fmt.Sprintf("password of %d", i)
}

// firstLogins logs in with each name once, and not many at a time, because the server refuses those
// that would wait for long. Later logins are recognized.
func (c *child) firstLogins(ctx context.Context, logins int) error {
	return divided(logins, firstWorkers, func(i int) error {
		h := hello{id: fmt.Sprintf("first-%d", i)}
		h.name, h.password = byPassword(i)
		nc, err := c.link.connect(ctx, &h)
		if err != nil {
			return err
		}
		return nc.Close()
	})
}

// printCosts prints the server's CPU time for a login that is recognized, and what of it is TLS: the
// time for a connection that ends after the handshake. Both are measured in turns.
func (s *suite) printCosts(ctx context.Context, logins int) error {
	k := s.child.link
	k.login = func(i int) (name, password string) { return byPassword(i % logins) }
	ways := [...]func(i int) (net.Conn, error){
		func(i int) (net.Conn, error) {
			h := k.helloOf(fmt.Sprintf("cost-%d", i), i)
			return k.connect(ctx, &h)
		},
		func(int) (net.Conn, error) { return k.dial(ctx) },
	}
	n := min(costConnects, s.entities(costConnects))
	var cpu [len(ways)]float64
	rounds := s.options.besideRounds()
	for range rounds {
		for i, connect := range ways {
			before, err := s.child.figures(ctx)
			if err != nil {
				return err
			}
			err = divided(n, costWorkers, func(i int) error {
				nc, err := connect(i)
				if err != nil {
					return err
				}
				return nc.Close()
			})
			if err != nil {
				return err
			}
			after, err := s.child.figures(ctx)
			if err != nil {
				return err
			}
			cpu[i] += after.cpu - before.cpu
		}
	}
	each := 1e6 / float64(n*rounds)
	fmt.Fprintf(s.stdout, "  a login that is recognized: %.0f µs of the server's CPU time, %.0f of them until the end of the handshake of TLS\n", cpu[0]*each, cpu[1]*each)
	return nil
}

// divided calls f with 0 to n-1, from several goroutines, each of which ends with its first error.
func divided(n, workers int, f func(i int) error) error {
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// connectByPassword connects, logs in with one of several names, and disconnects. It returns how
// many logins succeeded: a busy machine may not make all in time.
func connectByPassword(ctx context.Context, at *child, logins int) (int64, *latencies, error) {
	k := at.link
	k.login = func(i int) (name, password string) { return byPassword(i % logins) }
	latency := &latencies{}
	var done atomic.Int64
	_, err := paced(ctx, connectRate, connectWorkers, func(i int) error {
		h := k.helloOf(fmt.Sprintf("again-%d", i), i)
		began := time.Now()
		nc, err := k.connect(ctx, &h)
		if err != nil {
			return nil //nolint:nilerr // those that succeed are counted
		}
		latency.add(time.Since(began))
		done.Add(1)
		return nc.Close()
	})
	return done.Load(), latency, err
}

// paced calls f at a total rate per second, from several goroutines, until ctx ends or a call
// fails. It returns the number of calls.
func paced(ctx context.Context, rate float64, workers int, f func(i int) error) (n int64, err error) {
	began := time.Now()
	counts, errs := make([]int64, workers), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; ; i += workers {
				due := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
				if pause.For(ctx, max(0, time.Until(due))) != nil {
					return
				}
				if errs[w] = f(i); errs[w] != nil {
					break
				}
				counts[w]++
			}
			if ctx.Err() != nil { // it was interrupted
				errs[w] = nil
			}
		})
	}
	wg.Wait()
	for _, c := range counts {
		n += c
	}
	return n, errors.Join(errs...)
}
