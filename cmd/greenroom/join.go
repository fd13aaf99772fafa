package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/server"
)

// joinOptions say which node of a cluster a server is.
type joinOptions struct {
	join, node, addr string
	secretFile       string

	nats   string   // the URL of --join, "" for NATS servers in the nodes
	names  []string // of the nodes that --join lists
	routes []string // their addresses
	own    string   // the one of this node
	dir    string   // of the cluster on this machine
	secret string
}

// Names of files in the directory of the cluster.
const (
	secretName = "cluster.secret"
	linkName   = "link" // in that of a node: the address of its link
)

// check parses the flags.
func (o *joinOptions) check() error {
	if o.node == "" || strings.ContainsAny(o.node, "/\\~* ") || o.node != filepath.Base(o.node) {
		return usagef("--node must be the name of this node, such as n1, not %q", o.node)
	}
	if strings.Contains(o.join, "://") {
		o.nats = o.join
		o.own = cmp.Or(o.addr, "127.0.0.1:0")
		if _, _, err := net.SplitHostPort(o.own); err != nil {
			return usagef("--node-addr must be host:port, not %q", o.addr)
		}
		return nil
	}
	if o.addr != "" {
		return usagef("--node-addr is for --join with the URL of NATS servers; otherwise --join says the addresses")
	}
	for _, entry := range strings.Split(o.join, ",") {
		name, at, _ := strings.Cut(entry, "=")
		if _, _, err := net.SplitHostPort(at); err != nil || name == "" {
			return usagef("--join must be the URL of NATS servers or all nodes, such as n1=127.0.0.1:7400,n2=127.0.0.1:7410,n3=127.0.0.1:7420; %q is neither", entry)
		}
		o.names, o.routes = append(o.names, name), append(o.routes, at)
		if name == o.node {
			o.own = at
		}
	}
	switch {
	case o.own == "":
		return usagef("--node must be one of those that --join lists, %s, not %q", strings.Join(o.names, ", "), o.node)
	case len(o.names) != 1 && len(o.names) != 3 && len(o.names) != 5:
		return usagef("--join must list 1, 3 or 5 nodes, so that most of them can agree, not %d", len(o.names))
	}
	return nil
}

// at returns an address of this node: the one that is listed, or one of the ports after it.
func (o *joinOptions) at(after int) (string, error) {
	host, text, _ := net.SplitHostPort(o.own) // check has looked at it
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port+after > 65535 {
		return "", usagef("the port of %s must be a number up to 65533: a node has that one and the next two", o.own)
	}
	if port > 0 {
		port += after
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// local reports whether all that --join says is on this machine.
func (o *joinOptions) local() bool {
	for _, at := range append([]string{o.own}, o.routes...) {
		if host, _, _ := net.SplitHostPort(at); !isLoopback(host) { // check has looked at it
			return false
		}
	}
	return true
}

// prepare makes the directories, and reads the secret. The first node on a machine makes it.
func (o *joinOptions) prepare(data string) (err error) {
	o.dir = cmp.Or(data, server.DefaultDataDir)
	if err := os.MkdirAll(o.nodeDir(), 0o700); err != nil {
		return err
	}
	file := o.secretFile
	if file == "" {
		if !o.local() {
			return usagef("--secret-file must name a file with the secret of the cluster: its nodes are not all on this machine")
		}
		file = filepath.Join(o.dir, secretName)
		if err := makeSecret(file); err != nil {
			return fmt.Errorf("make the secret of the cluster: %w", err)
		}
	}
	o.secret, err = readSecret(file)
	return err
}

func (o *joinOptions) nodeDir() string { return filepath.Join(o.dir, o.node) }

// makeSecret makes a file with a secret, all at once, unless there is one.
func makeSecret(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := file + "." + rand.Text()
	if err := os.WriteFile(whole, []byte(rand.Text()+rand.Text()+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(whole)
	if err := os.Link(whole, file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func readSecret(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", usagef("--secret-file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", usagef("--secret-file %s must be readable by its owner only: chmod 600 %s", file, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", usagef("--secret-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// serveNode serves as a node of a cluster until ctx ends.
func serveNode(ctx context.Context, o *serveOptions, cfg server.Config, say func(format string, args ...any)) error {
	j := &o.joining
	if err := j.prepare(o.data); err != nil {
		return err
	}
	link, err := j.at(1)
	if err != nil {
		return err
	}
	n := &node{o: j, log: cfg.Logger, say: say, known: make(map[string]nodeRecord)}
	if cfg.Console != "" && o.console == "" {
		cfg.Console = ""
	}
	cfg.DataDir = j.nodeDir()
	if n.front, err = server.NewFront(ctx, cfg, server.NodeConfig{Name: j.node, Link: link, Secret: j.secret, Control: n.control()}); err != nil {
		return err
	}
	n.record = nodeRecord{HTTP: n.front.HTTPAddr(), MQTT: n.front.MQTTAddr(), Link: n.front.LinkAddr(), Version: version()}
	if err := os.WriteFile(filepath.Join(j.nodeDir(), linkName), []byte(n.front.LinkAddr()+"\n"), 0o600); err != nil {
		n.front.Close()
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- n.front.Run(serving) }()
	say("  node       %s, with the secret of the cluster in %s\n", j.node, cmp.Or(j.secretFile, filepath.Join(j.dir, secretName)))
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
