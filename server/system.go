package server

import (
	"context"
	_ "embed" // for openapi.json
	"net"
	"net/http"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/inspect"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// systemAPI shows the actor system and the state of the server.
type systemAPI struct {
	system   *actor.System
	runtime  *entity.Runtime
	refusals *refusal.Counter
	metrics  http.Handler
	version  string
	node     string
	listens  func() addressesJSON
	closing  func() bool
}

func (a *systemAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/system", "getSystem", "Read the counters of the actor system and of the ingestion.", a.get, needs(seesAll)),
		op("GET", "/v1/refusals", "getRefusals", "Read the latest refused messages and requests with readings, and why they were refused.", a.getRefusals, needs(seesAll)),
		op("GET", "/v1/actors", "getActors", "Read one actor and its first children.", a.actors, needs(seesAll), fails(http.StatusNotFound)),
		op("GET", "/v1/actor", "getActor", "Read one actor in detail.", a.actor, needs(seesAll), fails(http.StatusNotFound)),
		op("POST", "/v1/compact", "compactHistory", "Pack the history at once, and answer when that is done.", a.compact, needs(writesAll)),
		op("GET", "/healthz", "getHealth", "Report whether readings can be committed.", a.health, needs(public)),
		rawOp("GET", "/metrics", "getMetrics", "Read the metrics for Prometheus.", a.getMetrics, needs(seesAll), sends(content{mediaText, ""})),
		rawOp("GET", "/openapi.json", "getOpenAPI", "Read this document.", a.openAPI, needs(public), sends(content{mediaJSON, map[string]any{}})),
	}
}

// systemJSON has the counters of a server since its start.
type systemJSON struct {
	Name string `json:"name" example:"greenroom"`
	// The version of the server.
	Version string `json:"version" example:"v0.5.0"`
	// The node of a cluster that has answered, which owns the store; absent if there is no cluster.
	Node    string `json:"node,omitempty" example:"n1"`
	Started int64  `json:"started_ms" example:"1451649600512"`
	Now     int64  `json:"now_ms" example:"1451649660512"`
	// Where devices and people connect.
	Addresses addressesJSON `json:"addresses"`
	// The live actors.
	Actors int `json:"actors" example:"12"`
	// The messages that actors handled.
	Handled uint64 `json:"handled" example:"4711"`
	// The failures of actors.
	Failures uint64 `json:"failures"`
	Restarts uint64 `json:"restarts"`
	// The actors that wait for a worker.
	Runnable    int             `json:"runnable"`
	Workers     int             `json:"workers" example:"2"`
	Timers      int             `json:"timers" example:"3"`
	DeadLetters deadLettersJSON `json:"dead_letters"`
	Ingest      ingestJSON      `json:"ingest"`
}

// addressesJSON says where a server listens.
type addressesJSON struct {
	HTTP addressJSON `json:"http"`
	MQTT addressJSON `json:"mqtt"`
}

// addressJSON is one address on which a server listens.
type addressJSON struct {
	// The IP address; absent if it is every address of the machine.
	Host string `json:"host,omitempty" example:"127.0.0.1"`
	Port int    `json:"port" example:"1883"`
	// Whether it is encrypted.
	TLS bool `json:"tls"`
}

// addresses returns the addresses that the server listens on.
func (s *Server) addresses() addressesJSON {
	encrypted := s.certificates != nil
	return addressesJSON{newAddressJSON(s.httpLn, encrypted), newAddressJSON(s.mqttLn, encrypted)}
}

// newAddressJSON describes a TCP listener.
func newAddressJSON(ln net.Listener, encrypted bool) addressJSON {
	at, _ := netip.ParseAddrPort(ln.Addr().String()) // it is a valid address
	j := addressJSON{Port: int(at.Port()), TLS: encrypted}
	if host := at.Addr().Unmap(); !host.IsUnspecified() {
		j.Host = host.String()
	}
	return j
}

// deadLettersJSON counts the messages that no actor handled.
type deadLettersJSON struct {
	Total uint64 `json:"total" example:"1"`
	// The total by reason.
	ByReason map[string]uint64 `json:"by_reason"`
	// The last ones, newest first.
	Recent []inspect.DeadLetter `json:"recent"`
}

// ingestJSON has the counters of the ingestion of readings.
type ingestJSON struct {
	// The readings that were committed.
	Readings uint64 `json:"readings" example:"1000"`
	// The values in them.
	Values uint64 `json:"values" example:"2500"`
	// The messages and requests that were refused.
	Rejected uint64 `json:"rejected"`
	// The transactions that committed them.
	Batches uint64 `json:"batches" example:"40"`
	// The bytes of readings between arrival and commit.
	Window int64 `json:"window_bytes"`
	// The bound of window_bytes.
	WindowMax int64 `json:"window_bytes_max" example:"67108864"`
	// The entities with a live actor.
	Live int `json:"entities_live" example:"7"`
	// The entities that exist.
	Registered int64 `json:"entities_registered" example:"7"`
	// The median time from acceptance to commit.
	CommitP50 float64 `json:"commit_p50_ms" example:"4.5"`
	// The 99th percentile of it.
	CommitP99 float64 `json:"commit_p99_ms" example:"12.5"`
}

// refusalsJSON is what was refused since the start.
type refusalsJSON struct {
	// The messages and requests that were refused.
	Total uint64 `json:"total" example:"2"`
	// The last ones, one for each place, client and cause, newest first.
	Recent []refusalJSON `json:"recent"`
	Now    int64         `json:"now_ms" example:"1451649660512"`
}

// refusalJSON is what was refused from one client at one place for one cause.
type refusalJSON struct {
	// mqtt or http.
	Source string `json:"source" example:"mqtt"`
	Cause  string `json:"cause" example:"type"`
	// The topic or the path.
	Where string `json:"where" example:"e/room-1/telemetry"`
	// The client id of MQTT.
	Client string `json:"client,omitempty" example:"sensor-1"`
	// What was wrong the last time, and what is expected.
	Detail string `json:"detail" example:"type \"Room\": reading 0 key \"power\": does not agree with the type: must be a number up to 100, not 101"`
	// How often.
	Count uint64 `json:"count" example:"2"`
	First int64  `json:"first_ms" example:"1451649600512"`
	Last  int64  `json:"last_ms" example:"1451649660000"`
	// The last message, or its beginning, for topics that belong to no convention but that of
	// templates; absent for others.
	Payload string `json:"payload,omitempty" example:"{\"state\":\"ON\"}"`
	// Replaces payload if that is not text, in Base64.
	Bytes []byte `json:"payload_bytes,omitempty" example:"/wA="`
	// The length of the whole message; absent if nothing of it is kept.
	Size int `json:"payload_size,omitempty" example:"14"`
}

func newRefusalJSON(r *refusal.Refusal) refusalJSON {
	j := refusalJSON{
		Source: r.Source, Cause: r.Cause, Where: r.Where, Client: r.Client, Detail: r.Detail,
		Count: r.Count, First: r.First.UnixMilli(), Last: r.Last.UnixMilli(), Size: r.Size,
	}
	shown := r.Payload
	for cut := 0; len(shown) < r.Size && cut < utf8.UTFMax && !utf8.Valid(shown); cut++ { // a character may be cut
		shown = shown[:len(shown)-1]
	}
	if utf8.Valid(shown) {
		j.Payload = string(shown)
	} else {
		j.Bytes = r.Payload
	}
	return j
}

// getRefusals returns the latest refusals.
func (a *systemAPI) getRefusals(context.Context, *struct{}) (*answer[refusalsJSON], error) {
	list := refusalsJSON{Total: a.refusals.Total(), Recent: []refusalJSON{}, Now: time.Now().UnixMilli()}
	for _, r := range a.refusals.Latest() {
		list.Recent = append(list.Recent, newRefusalJSON(&r))
	}
	return ok(list), nil
}

func (a *systemAPI) get(context.Context, *struct{}) (*answer[systemJSON], error) {
	actors, ingest := a.system.Stats(), a.runtime.Stats()
	info := systemJSON{
		Name: a.system.Name(), Version: a.version, Node: a.node, Started: actors.Started.UnixMilli(), Now: time.Now().UnixMilli(),
		Addresses: a.listens(), Actors: actors.Actors, Handled: actors.Handled, Failures: actors.Failures, Restarts: actors.Restarts,
		Runnable: actors.Queued, Workers: actors.Workers, Timers: actors.Timers,
		DeadLetters: deadLettersJSON{Total: actors.DeadLetters, ByReason: actors.DeadLettersByReason, Recent: inspect.DeadLetters(a.system)},
		Ingest: ingestJSON{
			Readings: ingest.Readings, Values: ingest.Values, Rejected: a.refusals.Total(), Batches: ingest.Batches,
			Window: ingest.WindowUsed, WindowMax: ingest.WindowMax, Live: ingest.Live, Registered: ingest.Registered,
			CommitP50: milliseconds(ingest.CommitLatency.Quantile(0.5)), CommitP99: milliseconds(ingest.CommitLatency.Quantile(0.99)),
		},
	}
	return ok(info), nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type actorsRequest struct {
	// The path of the actor; / is the root.
	Path string `query:"path" default:"/" example:"/entities"`
	// The maximum number of children to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

func (a *systemAPI) actors(_ context.Context, in *actorsRequest) (*answer[*inspect.ActorTree], error) {
	tree, err := inspect.ReadTree(a.system, in.Path, in.Limit)
	if err != nil {
		return nil, problemf(http.StatusNotFound, "no actor has the path %q; a path begins with / as in /entities, and / itself is the root", shorten(in.Path, 300))
	}
	return ok(tree), nil
}

// healthJSON says that the server can commit.
type healthJSON struct {
	Status string `json:"status" enum:"ok" example:"ok"`
}

// health reports whether readings can be committed.
func (a *systemAPI) health(context.Context, *struct{}) (*answer[healthJSON], error) {
	if a.closing() {
		return nil, problemf(http.StatusServiceUnavailable, "the server is shutting down")
	}
	if reason := a.runtime.Stats().StoreError; reason != "" {
		return nil, problemf(http.StatusServiceUnavailable, "the store does not commit, readings wait: %s", reason)
	}
	return ok(healthJSON{"ok"}), nil
}

type metricsRequest struct {
	// Only this metric; may be repeated.
	Names []string `query:"name[]" collectionFormat:"multi" example:"[\"go_goroutines\"]"`
}

func (a *systemAPI) getMetrics(w http.ResponseWriter, r *http.Request, _ *metricsRequest) error {
	a.metrics.ServeHTTP(w, r)
	return nil
}

// openapi describes the API for people and generators. It is generated from the operations: see
// openapi_test.go.
//
//go:embed openapi.json
var openapi []byte

func (a *systemAPI) openAPI(w http.ResponseWriter, _ *http.Request, _ *struct{}) error {
	w.Header().Set("Content-Type", mediaJSON)
	_, _ = w.Write(openapi) // the client may have left
	return nil
}

// compact packs the history. It stops if the caller leaves; what was packed stays packed.
func (a *systemAPI) compact(ctx context.Context, _ *struct{}) (*answer[nothing], error) {
	if err := a.runtime.Compact(ctx); err != nil {
		return nil, err
	}
	return noContent(), nil
}
