package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/cluster"
	clusterpg "github.com/greenroom-go/greenroom/cluster/postgres"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgdb"
	"github.com/greenroom-go/greenroom/server"
)

// Keys of the directory. Those of package cluster are beside them: a member renews its own at each third of its lease.
const (
	secretKey     = "serve/secret"
	ownerKey      = "serve/owner"
	nodesPrefix   = "serve/node/"
	membersPrefix = "node/"
)

// nodeRecord is a node as the others know it.
type nodeRecord struct {
	HTTP     string `json:"http"`
	MQTT     string `json:"mqtt"`
	Link     string `json:"link"`
	Version  string `json:"version"`
	Instance string `json:"instance"` // random, of each process
	Left     bool   `json:"left,omitempty"`
}

// ownerRecord is the owner of the store.
type ownerRecord struct {
	Node  string `json:"node"`
	Link  string `json:"link"`
	Epoch uint64 `json:"epoch"`
}

// directory is what the nodes of a cluster keep in the database of their store: who they are, which one owns the store,
// and the secret by which they know each other. Who can write the database can do everything anyway.
type directory struct {
	engine *clusterpg.Engine
	secret string // "" before it was read
}

// openDirectory opens the directory beside a store. If existing is set, it fails if there is none.
func openDirectory(ctx context.Context, store string, log *slog.Logger, existing bool) (*directory, error) {
	_, schema, err := pgdb.Parse(store, pgdb.Options{DefaultSchema: postgres.DefaultSchema})
	if err != nil {
		return nil, err
	}
	engine, err := clusterpg.Open(ctx, store, clusterpg.Config{Schema: schema + "_cluster", Existing: existing, Log: log})
	if err != nil {
		return nil, err
	}
	return &directory{engine: engine}, nil
}

func (d *directory) close() { d.engine.Close() }

// haveSecret reads the secret. The first node makes it.
func (d *directory) haveSecret(ctx context.Context) error {
	made := []byte(rand.Text() + rand.Text())
	for {
		at, err := d.engine.Get(ctx, secretKey)
		if err == nil {
			d.secret = string(at.Value)
			return nil
		}
		if !errors.Is(err, cluster.ErrNotFound) {
			return fmt.Errorf("read the secret of the cluster: %w", err)
		}
		if _, err := d.engine.Put(ctx, secretKey, made, 0); err != nil && !errors.Is(err, cluster.ErrConflict) && !errors.Is(err, cluster.ErrUnsure) {
			return fmt.Errorf("make the secret of the cluster: %w", err)
		}
	}
}

// nodes returns the nodes that have not left, by their names.
func (d *directory) nodes(ctx context.Context) (map[string]nodeRecord, error) {
	entries, err := d.engine.List(ctx, nodesPrefix)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]nodeRecord)
	for _, at := range entries {
		var r nodeRecord
		if err := json.Unmarshal(at.Value, &r); err != nil {
			return nil, fmt.Errorf("read %s: %w", at.Key, err)
		}
		if !r.Left {
			nodes[strings.TrimPrefix(at.Key, nodesPrefix)] = r
		}
	}
	return nodes, nil
}

// The states of nodes, for server.NodeInfo.
const (
	nodeUp      = "up"
	nodeDrained = "drained"
	nodeSilent  = "silent"
)

// lookWithin bounds how long infos waits for nodes that do not answer.
const lookWithin = 2 * time.Second

// infos returns what the nodes say about themselves, in the order of their names.
func (d *directory) infos(ctx context.Context) ([]server.NodeInfo, error) {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	names := slices.Sorted(maps.Keys(nodes))
	infos := make([]server.NodeInfo, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			r, s := nodes[name], nodeStatus{}
			err := d.ask(ctx, r.Link, http.MethodGet, "/status", &s)
			infos[i] = server.NodeInfo{Name: name, State: nodeUp, Lease: s.Lease, HTTP: r.HTTP, MQTT: r.MQTT, Link: r.Link, Version: r.Version}
			switch {
			case err != nil || s.Instance != r.Instance:
				infos[i].State, infos[i].Lease = nodeSilent, false
			case s.Drained:
				infos[i].State = nodeDrained
			}
		})
	}
	asked.Wait()
	return infos, nil
}

// infosFor is how long the answers of nodes are reused.
const infosFor = 2 * time.Second

// infoCache keeps what infos has returned, and asks the nodes once for all callers: users look at the cluster again and
// again, and each look costs each node a connection.
type infoCache struct {
	ask  func(ctx context.Context) ([]server.NodeInfo, error)
	turn chan struct{} // held by the caller that asks; a channel, so that a context can end the wait; guards what follows

	asked time.Time
	infos []server.NodeInfo // not to be changed
}

func newInfoCache(ask func(ctx context.Context) ([]server.NodeInfo, error)) *infoCache {
	return &infoCache{ask: ask, turn: make(chan struct{}, 1)}
}

// get returns infos that are at most infosFor old. It does not keep errors.
func (c *infoCache) get(ctx context.Context) ([]server.NodeInfo, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !c.asked.IsZero() && time.Since(c.asked) < infosFor {
		return c.infos, nil
	}
	infos, err := c.ask(ctx)
	if err != nil || ctx.Err() != nil { // then nodes have had no time to answer
		return infos, err
	}
	c.asked, c.infos = time.Now(), infos
	return infos, nil
}

// owner returns the last owner of the store, the zero value if there was none.
func (d *directory) owner(ctx context.Context) (r ownerRecord, err error) {
	at, err := d.engine.Get(ctx, ownerKey)
	if errors.Is(err, cluster.ErrNotFound) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(at.Value, &r)
	}
	return r, err
}

// forget records that a node which ended without leaving has left. It waits for within: a running node that is a member
// of the cluster renews its lease more often. A node that has left the members, because it was drained or is about to
// join again, has no lease, so nothing shows whether it runs if it does not answer. As it owns nothing either, it is
// forgotten as well, and forget reports that as left.
func (d *directory) forget(ctx context.Context, name string, within time.Duration) (left bool, err error) {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return false, err
	}
	r, ok := nodes[name]
	if !ok {
		return false, usagef("the node must be one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(nodes)), ", "), name)
	}
	if left, err = d.hasEnded(ctx, name, r, within); err != nil {
		return false, fmt.Errorf("only a node that has ended is forgotten: %w", err)
	}
	forgotten := r
	forgotten.Left = true
	return left, d.put(ctx, nodesPrefix+name, forgotten, func(before []byte) error {
		var now nodeRecord
		if err := json.Unmarshal(before, &now); err == nil && now.Instance != r.Instance {
			return fmt.Errorf("only a node that has ended is forgotten: %s was started again", name)
		}
		return nil
	})
}

// hasEnded returns an error if the node may be running: it answers, or renews its membership, which is in the same
// database. left says that it has left the members; its process may still run.
func (d *directory) hasEnded(ctx context.Context, name string, r nodeRecord, within time.Duration) (left bool, err error) {
	before, _, err := d.membership(ctx, name)
	if err != nil {
		return false, err
	}
	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var s nodeStatus
	if err := d.ask(asking, r.Link, http.MethodGet, "/status", &s); err == nil && s.Instance == r.Instance {
		return false, fmt.Errorf("%s answers at %s, so stop it", name, r.Link)
	}
	if err := pause.For(ctx, within-time.Since(began)); err != nil {
		return false, err
	}
	after, left, err := d.membership(ctx, name)
	if err == nil && after != before {
		err = fmt.Errorf("%s has just renewed its lease; it runs, although it does not answer at %s", name, r.Link)
	}
	return left, err
}

// membership returns a revision that keeps changing while the node of that name runs, is connected to the database and
// has not left.
func (d *directory) membership(ctx context.Context, name string) (at cluster.Revision, left bool, err error) {
	e, err := d.engine.Get(ctx, membersPrefix+name)
	switch {
	case errors.Is(err, cluster.ErrNotFound):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read the membership of %s: %w", name, err)
	}
	var r struct {
		Left bool `json:"left"` // by its own word
	}
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return 0, false, fmt.Errorf("read the membership of %s: %w", name, err)
	}
	return e.Revision, r.Left, nil
}

// put sets a key to a value, unless allows refuses to replace what is there. It tries until ctx ends.
func (d *directory) put(ctx context.Context, key string, value any, allows func(before []byte) error) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, 320*time.Millisecond) {
		at, err := d.engine.Get(ctx, key)
		if err == nil {
			if refused := allows(at.Value); refused != nil {
				return refused
			}
		}
		if err == nil || errors.Is(err, cluster.ErrNotFound) {
			_, err = d.engine.Put(ctx, key, text, at.Revision)
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, clusterpg.ErrWentBack) || pause.For(ctx, delay) != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
}

// ask asks the node at a link.
func (d *directory) ask(ctx context.Context, link, method, path string, into any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return server.DialLink(ctx, link, d.secret)
	}}}
	r, err := http.NewRequestWithContext(ctx, method, "http://node"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return errors.Unwrap(err) // without the made-up URL
	}
	defer resp.Body.Close()
	var refused struct{ Error string }
	if resp.StatusCode != http.StatusOK {
		into = &refused
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("the node at %s: %w", link, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the node at %s: %s", link, refused.Error)
	}
	return nil
}
