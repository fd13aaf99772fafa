package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/search"
)

// Limits of bulk updates.
const (
	maxBulkRunning = 4
	maxBulkKept    = 100
	maxBulkChanged = 10_000_000
	defBulkChanged = 1_000_000
	// bulkAtOnce is how many edits of a job are under way together: they share
	// commits.
	bulkAtOnce = 64
	// bulkSample bounds the ids and the errors that a job shows.
	bulkSample = 20
)

// States of a job.
const (
	bulkRunning  = "running"
	bulkDone     = "done"
	bulkFailed   = "failed"
	bulkCanceled = "canceled"
	bulkLimited  = "limited" // more would match than were asked for
)

func (s *Server) bulkRoutes() []route {
	return []route{
		{"POST", "/v1/bulk", nil, s.postBulk},
		{"GET", "/v1/bulk", nil, s.listBulk},
		{"GET", "/v1/bulk/{job}", nil, s.getBulk},
		{"DELETE", "/v1/bulk/{job}", nil, s.cancelBulk},
	}
}

type bulkBody struct {
	Filter *string     `json:"filter"`
	Type   string      `json:"type"`
	Patch  *entityBody `json:"patch"`
	Delete bool        `json:"delete"`
	DryRun bool        `json:"dry_run"`
	Limit  int64       `json:"limit"`
}

// bulkStatus is what a job has done so far.
type bulkStatus struct {
	ID      string          `json:"id,omitempty"`
	State   string          `json:"state"`
	DryRun  bool            `json:"dry_run,omitempty"`
	Filter  string          `json:"filter"`
	Type    string          `json:"type,omitempty"`
	Matched int64           `json:"matched"`
	Changed int64           `json:"changed"`
	Failed  int64           `json:"failed"`
	Skipped int64           `json:"skipped"` // did not match any more when their turn came
	Started int64           `json:"started_ms"`
	Ended   int64           `json:"ended_ms,omitempty"`
	Sample  []string        `json:"sample"`
	Errors  []bulkErrorJSON `json:"errors,omitempty"`
}

type bulkErrorJSON struct {
	Entity string `json:"entity,omitempty"`
	Detail string `json:"detail"`
}

// bulkJob is a bulk update that runs, or has run.
type bulkJob struct {
	server *Server
	filter *filter.Filter
	typ    string
	edits  entity.Edits
	remove bool
	dryRun bool
	limit  int64
	cancel context.CancelFunc

	mu      sync.Mutex
	status  bulkStatus
	limited bool // there is more than the limit; guarded by mu
}

// bulkJobs are the jobs of a server. They end with it.
type bulkJobs struct {
	mu      sync.Mutex
	next    int64
	running int
	jobs    []*bulkJob // the oldest first
	wg      sync.WaitGroup
}

func (s *Server) postBulk(w http.ResponseWriter, r *http.Request) error {
	var b bulkBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	job, err := s.newBulkJob(&b)
	if err != nil {
		return err
	}
	if b.DryRun {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		if err := job.scan(ctx, func(string, string) {}); err != nil {
			return err
		}
		job.end(nil)
		return writeJSON(w, job.state())
	}
	// The job outlives the request.
	ctx, cancel := context.WithCancel(s.serving)
	job.cancel = cancel
	if err := s.bulk.add(job); err != nil {
		cancel()
		return err
	}
	s.bulk.wg.Go(func() {
		defer cancel()
		job.run(ctx)
		s.bulk.over()
	})
	status := job.state()
	w.Header().Set("Location", "/v1/bulk/"+status.ID)
	return writeStatus(w, http.StatusAccepted, status)
}

func (s *Server) newBulkJob(b *bulkBody) (*bulkJob, error) {
	switch {
	case b.Filter == nil && b.Type == "":
		return nil, problemf(http.StatusBadRequest, `filter or type says which entities; "filter":"" is all of them`)
	case (b.Patch == nil) == !b.Delete:
		return nil, problemf(http.StatusBadRequest, "patch or delete says what becomes of them; one of both is right")
	case b.Limit < 0 || b.Limit > maxBulkChanged:
		return nil, problemf(http.StatusBadRequest, "limit is %d; 1 to %d is right", b.Limit, maxBulkChanged)
	case b.Patch != nil && (b.Patch.ID != "" || b.Patch.Relations != nil):
		return nil, problemf(http.StatusBadRequest, "a patch has type, attributes, desired and reported")
	}
	if b.Limit == 0 {
		b.Limit = defBulkChanged
	}
	text := ""
	if b.Filter != nil {
		text = *b.Filter
	}
	f, err := parseFilter(text)
	if err != nil {
		return nil, err
	}
	job := &bulkJob{server: s, filter: f, typ: b.Type, remove: b.Delete, dryRun: b.DryRun, limit: b.Limit}
	job.status = bulkStatus{State: bulkRunning, DryRun: b.DryRun, Filter: text, Type: b.Type, Started: time.Now().UnixMilli(), Sample: []string{}}
	if b.Patch != nil {
		if job.edits, err = b.Patch.edits(entity.MergePatch); err != nil {
			return nil, err
		}
	}
	return job, nil
}

// add takes up a job, and forgets old ones that have ended.
func (b *bulkJobs) add(job *bulkJob) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running >= maxBulkRunning {
		return problemf(http.StatusServiceUnavailable, "%d bulk updates are running, which is the limit; wait for one, or cancel it", b.running)
	}
	b.running++
	b.next++
	job.status.ID = strconv.FormatInt(b.next, 10)
	b.jobs = append(b.jobs, job)
	for i := 0; len(b.jobs) > maxBulkKept && i < len(b.jobs); {
		if b.jobs[i].state().State == bulkRunning {
			i++
			continue
		}
		b.jobs = slices.Delete(b.jobs, i, i+1)
	}
	return nil
}

func (b *bulkJobs) over() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
}

// active is how many jobs run.
func (b *bulkJobs) active() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}

func (b *bulkJobs) list() []*bulkJob {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.jobs)
}

func (s *Server) findBulk(r *http.Request) (*bulkJob, error) {
	id := r.PathValue("job")
	for _, job := range s.bulk.list() {
		if job.state().ID == id {
			return job, nil
		}
	}
	return nil, problemf(http.StatusNotFound, "there is no bulk update %q; the last %d since the server was started are known", shorten(id, 32), maxBulkKept)
}

type bulkListJSON struct {
	Jobs []bulkStatus `json:"jobs"`
}

func (s *Server) listBulk(w http.ResponseWriter, _ *http.Request) error {
	list := bulkListJSON{Jobs: []bulkStatus{}}
	for _, job := range slices.Backward(s.bulk.list()) {
		list.Jobs = append(list.Jobs, job.state())
	}
	return writeJSON(w, list)
}

func (s *Server) getBulk(w http.ResponseWriter, r *http.Request) error {
	job, err := s.findBulk(r)
	if err != nil {
		return err
	}
	return writeJSON(w, job.state())
}

// cancelBulk ends a job. What it has done stays.
func (s *Server) cancelBulk(w http.ResponseWriter, r *http.Request) error {
	job, err := s.findBulk(r)
	if err != nil {
		return err
	}
	job.cancel()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (j *bulkJob) state() bulkStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	status := j.status
	status.Sample, status.Errors = slices.Clone(status.Sample), slices.Clone(status.Errors)
	return status
}

func (j *bulkJob) update(f func(*bulkStatus)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.status)
}

// end notes how the job ended.
func (j *bulkJob) end(err error) {
	j.update(func(s *bulkStatus) {
		s.Ended = time.Now().UnixMilli()
		switch {
		case errors.Is(err, context.Canceled):
			s.State = bulkCanceled
		case err != nil:
			s.State = bulkFailed
			s.Errors = append(s.Errors, bulkErrorJSON{Detail: problemOf(err).Detail})
		case j.limited:
			s.State = bulkLimited
		default:
			s.State = bulkDone
		}
	})
}

// scan calls f with the entities that match, by id and version.
func (j *bulkJob) scan(ctx context.Context, f func(id, etag string)) error {
	return j.server.finder.Each(ctx, search.Query{Filter: j.filter, Type: j.typ}, func(v entity.View, matched bool) bool {
		if !matched {
			return true
		}
		more := true
		j.update(func(s *bulkStatus) {
			if more = s.Matched < j.limit; !more {
				j.limited = true
				return
			}
			s.Matched++
			if len(s.Sample) < bulkSample {
				s.Sample = append(s.Sample, v.ID())
			}
		})
		if more {
			f(v.ID(), v.ETag())
		}
		return more
	})
}

// bulkGrace is how long the edits that are under way when a job is canceled may take to
// be answered.
const bulkGrace = 2 * time.Second

// run makes the edits, some at a time. When ctx ends no more are begun, and those under
// way are waited for: it is known then what became of them.
func (j *bulkJob) run(ctx context.Context) {
	work, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(bulkGrace, breakOff) })()
	places := make(chan struct{}, bulkAtOnce)
	var wg sync.WaitGroup
	err := j.scan(ctx, func(id, etag string) {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-places }()
			j.change(work, id, etag)
		})
	})
	wg.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	j.end(err)
}

// bulkTries is how often an entity is looked at again that was changed by somebody
// else meanwhile.
const bulkTries = 3

// change edits one entity, if it is still one of those that are meant.
func (j *bulkJob) change(ctx context.Context, id, etag string) {
	err := j.write(ctx, id, etag)
	for range bulkTries {
		if !errors.Is(err, entity.ErrConflict) {
			break
		}
		matched := false
		err = j.server.runtime.View(ctx, id, func(v entity.View) error {
			matched, etag = search.NewMatcher(j.server.runtime, j.filter).Match(ctx, v) && (j.typ == "" || v.IsA(j.typ)), v.ETag()
			return nil
		})
		if err != nil {
			break
		}
		if err = entity.ErrConflict; !matched {
			break
		}
		err = j.write(ctx, id, etag)
	}
	j.update(func(s *bulkStatus) {
		switch {
		case err == nil:
			s.Changed++
		case errors.Is(err, entity.ErrConflict), errors.Is(err, entity.ErrNotFound):
			s.Skipped++
		default:
			s.Failed++
			detail := problemOf(err).Detail
			if ctx.Err() != nil {
				detail = "the update was broken off before this was answered; it may have been changed"
			}
			if len(s.Errors) < bulkSample {
				s.Errors = append(s.Errors, bulkErrorJSON{id, detail})
			}
		}
	})
}

func (j *bulkJob) write(ctx context.Context, id, etag string) error {
	if j.remove {
		return j.server.runtime.Delete(ctx, id, etag)
	}
	edits := j.edits
	edits.If = etag
	_, err := j.server.runtime.Edit(ctx, id, edits)
	return err
}
