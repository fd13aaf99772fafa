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

// Keys of the directory. Those of package cluster are beside them.
const (
	secretKey   = "serve/secret"
	ownerKey    = "serve/owner"
	nodesPrefix = "serve/node/"
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

// openDirectory opens the directory beside a store. existing has it fail if there is none.
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
