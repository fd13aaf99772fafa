package server

import (
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

const (
	maxActorsLimit     = 1000
	defaultActorsLimit = 200
)

type systemJSON struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Started     int64           `json:"started_ms"`
	Now         int64           `json:"now_ms"`
	Actors      int             `json:"actors"`
	Handled     uint64          `json:"handled"`
	Failures    uint64          `json:"failures"`
	Restarts    uint64          `json:"restarts"`
	Runnable    int             `json:"runnable"`
	Workers     int             `json:"workers"`
	Timers      int             `json:"timers"`
	DeadLetters deadLettersJSON `json:"dead_letters"`
	Ingest      ingestJSON      `json:"ingest"`
}

type deadLettersJSON struct {
	Total    uint64            `json:"total"`
	ByReason map[string]uint64 `json:"by_reason"`
	Recent   []deadLetterJSON  `json:"recent"`
}

type deadLetterJSON struct {
	To     string `json:"to"`
	From   string `json:"from"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Time   int64  `json:"time_ms"`
}

type ingestJSON struct {
	Readings   uint64  `json:"readings"`
	Values     uint64  `json:"values"`
	Rejected   uint64  `json:"rejected"`
	Batches    uint64  `json:"batches"`
	Window     int64   `json:"window_bytes"`
	WindowMax  int64   `json:"window_bytes_max"`
	Live       int     `json:"entities_live"`
	Registered int64   `json:"entities_registered"`
	CommitP50  float64 `json:"commit_p50_ms"`
	CommitP99  float64 `json:"commit_p99_ms"`
}

type actorJSON struct {
	Path     string `json:"path"`
	PID      string `json:"pid"`
	Type     string `json:"type"`
	State    string `json:"state"`
	Mailbox  int    `json:"mailbox"`
	Handled  uint64 `json:"handled"`
	Restarts uint64 `json:"restarts"`
	Children int    `json:"children"`
}

type actorTreeJSON struct {
	Actor    actorJSON   `json:"actor"`
	Children []actorJSON `json:"children"`
	More     bool        `json:"more"`
	Now      int64       `json:"now_ms"`
}

func (s *Server) getSystem(w http.ResponseWriter, r *http.Request) error {
	actors, ingest := s.system.Stats(), s.runtime.Stats()
	answer := systemJSON{
		Name: s.system.Name(), Version: s.cfg.Version, Started: actors.Started.UnixMilli(), Now: time.Now().UnixMilli(),
		Actors: actors.Actors, Handled: actors.Handled, Failures: actors.Failures, Restarts: actors.Restarts,
		Runnable: actors.Queued, Workers: actors.Workers, Timers: actors.Timers,
		DeadLetters: deadLettersJSON{Total: actors.DeadLetters, ByReason: actors.DeadLettersByReason, Recent: []deadLetterJSON{}},
		Ingest: ingestJSON{
			Readings: ingest.Readings, Values: ingest.Values, Rejected: s.refusals.Total(), Batches: ingest.Batches,
			Window: ingest.WindowUsed, WindowMax: ingest.WindowMax, Live: ingest.Live, Registered: ingest.Registered,
			CommitP50: milliseconds(ingest.CommitLatency.Quantile(0.5)), CommitP99: milliseconds(ingest.CommitLatency.Quantile(0.99)),
		},
	}
	for _, d := range s.system.DeadLetters() {
		answer.DeadLetters.Recent = append(answer.DeadLetters.Recent, deadLetterJSON{
			To: d.To.String(), From: d.From.String(), Type: d.Type, Reason: d.Reason.String(), Time: d.Time.UnixMilli(),
		})
	}
	return writeJSON(w, answer)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (s *Server) getActors(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := limitParam(q, maxActorsLimit)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = defaultActorsLimit
	}
	path := "/"
	if q.Has("path") {
		path = q.Get("path")
	}
	tree, err := s.system.Inspect(path, limit)
	if err != nil {
		return problemf(http.StatusNotFound, "no actor has the path %q; a path begins with / as in /entities, and / itself is the root", shorten(path, 300))
	}
	answer := actorTreeJSON{Actor: newActorJSON(&tree.Info), Children: make([]actorJSON, len(tree.Children)), More: tree.More, Now: time.Now().UnixMilli()}
	for i := range tree.Children {
		answer.Children[i] = newActorJSON(&tree.Children[i])
	}
	return writeJSON(w, answer)
}

func newActorJSON(i *actor.Info) actorJSON {
	return actorJSON{
		Path: i.Path, PID: i.PID, Type: i.Type, State: i.State,
		Mailbox: i.Mailbox, Handled: i.Handled, Restarts: i.Restarts, Children: i.Children,
	}
}

type healthJSON struct {
	Status string `json:"status"`
}

// getHealth says whether readings can be committed.
func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) error {
	if s.serving.Err() != nil {
		return problemf(http.StatusServiceUnavailable, "the server is shutting down")
	}
	if reason := s.runtime.Stats().StoreError; reason != "" {
		return problemf(http.StatusServiceUnavailable, "the store does not commit, readings wait: %s", reason)
	}
	return writeJSON(w, healthJSON{"ok"})
}
