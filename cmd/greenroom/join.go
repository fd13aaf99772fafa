package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/server"
)

// joinOptions say which node of a cluster a server is.
type joinOptions struct {
	join string // the address at which the other nodes reach this one
	node string // its name, by default that address
}

// check checks the flags, together with the others that they concern, and sets the name.
func (o *joinOptions) check(s *serveOptions) error {
	if o.join == "" {
		if o.node != "" {
			return usagef("--node %s needs --join, the address at which the other nodes reach this one, such as 127.0.0.1:7401", o.node)
		}
		return nil
	}
	if err := checkAddress(o.join); err != nil {
		return usagef("--join must be the address at which the other nodes reach this one, such as 127.0.0.1:7401, not %q: %w", o.join, err)
	}
	if o.node == "" {
		o.node = o.join
	}
	if o.node == "*" || strings.ContainsAny(o.node, "/#~") || strings.ContainsFunc(o.node, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return usagef("--node must be the name of this node, such as n1, with no space, '/', '#' or '~', not %q", o.node)
	}
	if !postgres.IsURL(s.store) {
		return usagef("--join needs --store postgres://user@host/database, which all nodes share, not %q", server.StoreName(s.store))
	}
	for flag, other := range map[string]string{"http": s.http, "mqtt": s.mqtt} {
		if clash(o.join, other) {
			return usagef("--join %s and --%s %s must be different addresses", o.join, flag, other)
		}
	}
	if s.demo {
		return usagef("--demo must not be given with --join")
	}
	return nil
}

// checkAddress reports what is wrong with an address that others are told.
func checkAddress(addr string) error {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		if why, ok := errors.AsType[*net.AddrError](err); ok {
			return errors.New(why.Err) // without the address once more
		}
		return err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("the port must be a number from 1 to 65535, not %q: the others are told it", text)
	}
	if isAny(host) {
		return errors.New("it stands for all addresses of this host, at which the others would look for it on their own")
	}
	return nil
}

// clash reports whether two addresses cannot be listened on both.
func clash(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	return hostA == hostB || isAny(hostA) || isAny(hostB) || isLoopback(hostA) && isLoopback(hostB) && (hostA == "localhost" || hostB == "localhost")
}

// isAny reports whether a host stands for all addresses of this machine.
func isAny(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// serveNode serves as a node of a cluster until ctx ends. ready is called when clients can connect.
func serveNode(ctx context.Context, o *serveOptions, cfg server.Config, say func(format string, args ...any), ready func(f *server.Front)) error {
	j := &o.joining
	d, err := openDirectory(ctx, o.store, cfg.Logger, false)
	if err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	defer d.close()
	if err := d.haveSecret(ctx); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	n := &node{o: j, dir: d, log: cfg.Logger, say: say, failed: make(chan uint64, 1)}
	nc := server.NodeConfig{Name: j.node, Link: j.join, Secret: d.secret, Control: n.control(), Nodes: newInfoCache(d.infos).get, Ended: n.serverEnded}
	if n.front, err = server.NewFront(ctx, cfg, nc); err != nil {
		return err
	}
	n.record = nodeRecord{HTTP: n.front.HTTPAddr(), MQTT: n.front.MQTTAddr(), Link: j.join, Version: version(), Instance: rand.Text()}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- n.front.Run(serving) }()
	ready(n.front)
	joining, leave := context.WithCancel(ctx)
	defer leave()
	go func() { // clients cannot be served any more: leave in order
		err := <-ran
		ran <- err
		leave()
	}()
	err = n.run(joining)
	stop()
	return errors.Join(err, <-ran)
}

// notifyReady tells systemd that the service has started.
func notifyReady(ctx context.Context, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "cannot notify systemd that the server is ready", slog.Any("error", err))
	}
}
