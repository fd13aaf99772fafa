package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server/access"
)

// Limits of bulk updates.
const (
	maxBulkRunning = 4
	maxBulkKept    = 100
	maxBulkChanged = 10_000_000
	maxBulkRate    = 100_000
	defBulkChanged = 1_000_000
	// bulkAtOnce is how many edits of a job run concurrently; they share commits.
	bulkAtOnce = 64
	// bulkSample bounds the ids and the errors in the status of a job.
	bulkSample = 20
)

// States of a job.
const (
	bulkRunning  = "running"
	bulkDone     = "done"
	bulkFailed   = "failed"
	bulkCanceled = "canceled"
	bulkLimited  = "limited" // there are more matches than the limit
)

// bulkAPI starts bulk updates and shows them. They end with the server.
type bulkAPI struct {
	runtime *entity.Runtime
	finder  *search.Finder
	serving context.Context //nolint:containedctx // the server's own life

	wg sync.WaitGroup

	mu      sync.Mutex
	next    int64      // guarded by mu
	running int        // guarded by mu
	jobs    []*bulkJob // oldest first, guarded by mu
}

func (a *bulkAPI) operations() []operation {
	return []operation{
		op("POST", "/v1/bulk", "postBulk", "Patch or delete all entities that match a filter, or send their devices a command.", a.post, needs(writesAll), answers(200, 202), fails(422)),
		op("GET", "/v1/bulk", "listBulk", "List the bulk updates since the start of the server, newest first.", a.list, needs(seesAll)),
		op("GET", "/v1/bulk/{job}", "getBulk", "Read the progress of a bulk update.", a.get, needs(seesAll), fails(404)),
		op("DELETE", "/v1/bulk/{job}", "cancelBulk", "Cancel a bulk update. Changes already made are kept.", a.stop, needs(writesAll), fails(404)),
	}
}

type bulkPath struct {
	// The id of the bulk update.
	Job string `path:"job" example:"1"`
}

type bulkRequest struct {
	// Identifies the command: a device that got it through a request of the same principal with the
	// same key does not get it again, as long as the command is kept. Only with command.
	IdempotencyKey *string `header:"Idempotency-Key" minLength:"1" maxLength:"256"`
	Body           bulkBody
}

// bulkBody says which entities to change, and how: by patch, by delete or by command.
type bulkBody struct {
	// docs/filter.md has the language; the empty filter matches all.
	Filter *string `json:"filter,omitempty" example:"attributes.building = 'A'"`
	// Only entities of this type or one that extends it.
	Type  string       `json:"type,omitempty" example:"Room"`
	Patch *entityPatch `json:"patch,omitempty" example:"{\"attributes\":{\"floor\":2}}"`
	// Delete the entities.
	Delete bool `json:"delete,omitempty"`
	// Send this command to each device.
	Command *commandBody `json:"command,omitempty"`
	// The maximum number of entities to change in a second; unlimited by default.
	Rate int `json:"rate,omitempty" minimum:"1" maximum:"100000" example:"100"`
	// Only find the entities.
	DryRun bool `json:"dry_run,omitempty"`
	// The maximum number of entities to change.
	Limit int64 `json:"limit,omitempty" minimum:"1" maximum:"10000000" default:"1000000" example:"1000"`
}

// bulkStatus is what a bulk update has done so far.
type bulkStatus struct {
	// Absent for a dry run.
	ID     string `json:"id,omitempty" example:"1"`
	State  string `json:"state" enum:"running,done,failed,canceled,limited" example:"done"`
	DryRun bool   `json:"dry_run,omitempty"`
	Filter string `json:"filter" example:"attributes.building = 'A'"`
	Type   string `json:"type,omitempty" example:"Room"`
	// The entities that were found.
	Matched int64 `json:"matched" example:"12"`
	Changed int64 `json:"changed" example:"12"`
	Failed  int64 `json:"failed"`
	// The entities that no longer matched when their turn came.
	Skipped int64 `json:"skipped"`
	Started int64 `json:"started_ms" example:"1451649600512"`
	Ended   int64 `json:"ended_ms,omitempty" example:"1451649601512"`
	// Some of the entities that were found.
	Sample []string `json:"sample" example:"[\"room-1\"]"`
	// Some of the errors.
	Errors []bulkErrorJSON `json:"errors,omitempty"`
}

// bulkErrorJSON is an error of a bulk update.
type bulkErrorJSON struct {
	// Absent for an error of the whole update.
	Entity string `json:"entity,omitempty" example:"room-1"`
	Detail string `json:"detail" example:"entity \"room-1\": too many attributes"`
}

// bulkListJSON is the bulk updates that are known.
type bulkListJSON struct {
	Jobs []bulkStatus `json:"jobs"`
}

// bulkJob is a bulk update.
type bulkJob struct {
	api     *bulkAPI
	filter  *filter.Filter
	typ     string
	edits   entity.Edits
	remove  bool
	command *entity.NewCommand // nil for none
	pace    time.Duration      // between two entities
	limit   int64
	cancel  context.CancelFunc

	mu      sync.Mutex
	status  bulkStatus
	limited bool // there are more matches than the limit; guarded by mu
}

func (a *bulkAPI) post(ctx context.Context, in *bulkRequest) (*answer[bulkStatus], error) {
	who := callerOf(ctx).who
	job, err := a.newJob(&in.Body, who.Name())
	if err != nil {
		return nil, err
	}
	if err := job.name(in.IdempotencyKey); err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if err := job.scan(ctx, func(string, string) {}); err != nil {
			return nil, err
		}
		job.end(nil)
		return ok(job.state()), nil
	}
	// The job outlives the request, but not the caller's credentials.
	ctx, cancel := context.WithCancel(a.serving)
	job.cancel = cancel
	unwatch, ok := who.Watch(cancel)
	if !ok {
		cancel()
		return nil, access.ErrCredentials
	}
	if err := a.add(job); err != nil {
		unwatch()
		cancel()
		return nil, err
	}
	a.wg.Go(func() {
		defer cancel()
		defer unwatch()
		job.run(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running--
	})
	status := job.state()
	return &answer[bulkStatus]{value: status, status: http.StatusAccepted, location: "/v1/bulk/" + status.ID}, nil
}

func (a *bulkAPI) newJob(b *bulkBody, by string) (*bulkJob, error) {
	switch {
	case b.Filter == nil && b.Type == "":
		return nil, problemf(http.StatusBadRequest, `the body must have filter or type; "filter":"" is all entities`)
	case b.ways() != 1:
		return nil, problemf(http.StatusBadRequest, "the body must have one of patch, delete and command")
	case b.Rate < 0 || b.Rate > maxBulkRate:
		return nil, problemf(http.StatusBadRequest, "rate must be an integer from 1 to %d, not %d", maxBulkRate, b.Rate)
	case b.Limit < 0 || b.Limit > maxBulkChanged:
		return nil, problemf(http.StatusBadRequest, "limit must be an integer from 1 to %d, not %d", maxBulkChanged, b.Limit)
	}
	if b.Limit == 0 {
		b.Limit = defBulkChanged
	}
	f, err := filter.Parse(some(b.Filter))
	if err != nil {
		return nil, err
	}
	job := &bulkJob{api: a, filter: f, typ: b.Type, remove: b.Delete, limit: b.Limit}
	job.status = bulkStatus{State: bulkRunning, DryRun: b.DryRun, Filter: some(b.Filter), Type: b.Type, Started: time.Now().UnixMilli(), Sample: []string{}}
	if b.Rate > 0 {
		job.pace = time.Second / time.Duration(b.Rate)
	}
	if b.Command != nil {
		n, err := b.Command.command(by)
		if err != nil {
			return nil, err
		}
		job.command = &n
	}
	if b.Patch != nil {
		job.edits = entity.Edits{By: by, Type: b.Patch.Type.id, Patches: b.Patch.patches(entity.MergePatch)}
	}
	return job, nil
}

// name sets the idempotency key of the job's commands: each device receives one command of a job,
// and one of all jobs that were requested with the same key.
func (j *bulkJob) name(key *string) error {
	switch {
	case key == nil && j.command != nil:
		j.command.Key = "bulk " + rand.Text()
	case key == nil:
	case j.command == nil:
		return problemf(http.StatusBadRequest, "Idempotency-Key must only be there with command")
	case *key == "" || len(*key) > entity.MaxCommandKeyBytes:
		return problemf(http.StatusBadRequest, "Idempotency-Key must have 1 to %d bytes, not %d", entity.MaxCommandKeyBytes, len(*key))
	default: // not the key itself, which may be used for a single command
		sum := sha256.Sum256([]byte(*key))
		j.command.Key = "bulk " + hex.EncodeToString(sum[:])
	}
	return nil
}

// ways returns how many kinds of change are requested.
func (b *bulkBody) ways() (n int) {
	for _, has := range []bool{b.Patch != nil, b.Delete, b.Command != nil} {
		if has {
			n++
		}
	}
	return n
}

// add adds a job, and forgets old ones that have ended.
func (a *bulkAPI) add(job *bulkJob) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running >= maxBulkRunning {
		return problemf(http.StatusServiceUnavailable, "%d bulk updates are running, which is the limit; wait for one, or cancel it", a.running)
	}
	a.running++
	a.next++
	job.status.ID = strconv.FormatInt(a.next, 10)
	a.jobs = append(a.jobs, job)
	for i := 0; len(a.jobs) > maxBulkKept && i < len(a.jobs); {
		if a.jobs[i].state().State == bulkRunning {
			i++
			continue
		}
		a.jobs = slices.Delete(a.jobs, i, i+1)
	}
	return nil
}

// active returns how many jobs are running.
func (a *bulkAPI) active() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running
}

func (a *bulkAPI) known() []*bulkJob {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.jobs)
}

func (a *bulkAPI) find(id string) (*bulkJob, error) {
	for _, job := range a.known() {
		if job.state().ID == id {
			return job, nil
		}
	}
	return nil, problemf(http.StatusNotFound, "there is no bulk update %q; the last %d since the start of the server are known", shorten(id, 32), maxBulkKept)
}

func (a *bulkAPI) list(context.Context, *struct{}) (*answer[bulkListJSON], error) {
	list := bulkListJSON{Jobs: []bulkStatus{}}
	for _, job := range slices.Backward(a.known()) {
		list.Jobs = append(list.Jobs, job.state())
	}
	return ok(list), nil
}

func (a *bulkAPI) get(_ context.Context, in *bulkPath) (*answer[bulkStatus], error) {
	job, err := a.find(in.Job)
	if err != nil {
		return nil, err
	}
	return ok(job.state()), nil
}

// stop cancels a job. What it has changed stays.
func (a *bulkAPI) stop(_ context.Context, in *bulkPath) (*answer[nothing], error) {
	job, err := a.find(in.Job)
	if err != nil {
		return nil, err
	}
	job.cancel()
	return noContent(), nil
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

// end records how the job ended.
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

// scan calls f with the ids and versions of the matching entities.
func (j *bulkJob) scan(ctx context.Context, f func(id, etag string)) error {
	return j.api.finder.Each(ctx, search.Query{Filter: j.filter, Type: j.typ}, func(v entity.View, matched bool) bool {
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

// bulkGrace bounds the wait for running edits when a job is canceled.
const bulkGrace = 2 * time.Second

// run makes the edits, several at a time. When ctx ends, it begins no more, and waits for those
// that are running, so that their outcome is known.
func (j *bulkJob) run(ctx context.Context) {
	work, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(bulkGrace, breakOff) })()
	places := make(chan struct{}, bulkAtOnce)
	var wg sync.WaitGroup
	next := time.Now()
	err := j.scan(ctx, func(id, etag string) {
		if j.pace > 0 && pause.For(ctx, time.Until(next)) != nil {
			return
		}
		next = time.Now().Add(j.pace)
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

// bulkTries is how often an entity is evaluated again because it was changed meanwhile.
const bulkTries = 3

// change edits an entity if it still matches.
func (j *bulkJob) change(ctx context.Context, id, etag string) {
	err := j.write(ctx, id, etag)
	for range bulkTries {
		if !errors.Is(err, entity.ErrConflict) {
			break
		}
		if etag, err = j.match(ctx, id); err != nil {
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

// match returns the version of an entity if it still matches, and ErrConflict otherwise.
func (j *bulkJob) match(ctx context.Context, id string) (etag string, err error) {
	err = j.api.runtime.View(ctx, id, func(v entity.View) error {
		if !search.NewMatcher(j.api.runtime, j.filter).Match(ctx, v) || j.typ != "" && !v.IsA(j.typ) {
			return entity.ErrConflict
		}
		etag = v.ETag()
		return nil
	})
	return etag, err
}

func (j *bulkJob) write(ctx context.Context, id, etag string) error {
	if j.command != nil {
		// A command has no condition, and with a rate, the entity may have been found long ago.
		if _, err := j.match(ctx, id); err != nil {
			return err
		}
		_, err := j.api.runtime.Command(ctx, id, *j.command)
		return err
	}
	if j.remove {
		return j.api.runtime.Delete(ctx, id, etag)
	}
	edits := j.edits
	edits.If = etag
	_, err := j.api.runtime.Edit(ctx, id, edits)
	return err
}
