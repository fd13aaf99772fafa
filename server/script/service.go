package script

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/lua"
)

// Kinds of what is stored.
const (
	kindScript   = "script"         // documents, under the names
	kindVersions = "script-version" // items: earlier versions
)

// Config sets up a Service.
type Config struct {
	// May reports whether an owner may write an entity. It is asked before each call, concurrently. It must
	// be set.
	May func(owner string, v entity.View) bool
	// Logger takes what an operator should know. Defaults to slog.Default.
	Logger *slog.Logger
	// Behaviors sets up the runs of scripts, but for its Prefix, Runners and Logger.
	Behaviors behavior.Config
}

// Service keeps scripts on an entity runtime and runs them. Make it with Open. Its methods are safe for
// concurrent use.
type Service struct {
	rt        *entity.Runtime
	may       func(owner string, v entity.View) bool
	log       *slog.Logger
	behaviors *behavior.Service
	trials    chan struct{} // has room for those under way

	change sync.Mutex // held while a script is put or deleted
	mu     sync.Mutex
	list   map[string]*Stored // guarded by mu; what is in it is not changed
}

// Stored is a script as the service keeps it.
type Stored struct {
	Script
	Name string
	// Owner has written it: it is for the entities that the owner may write.
	Owner string
	// Version is the number of the version, and ETag the same for conditions.
	Version int64
	ETag    string
	// Updated is when it was put, in milliseconds since the epoch.
	Updated int64
	// Problem says why it is not in force, and is "" when it is.
	Problem string
}

// body is what is stored of a version.
type body struct {
	Script
	Owner string `json:"owner,omitempty"`
	// Version and Updated are of an earlier version; the document has those of its own.
	Version int64 `json:"version,omitempty"`
	Updated int64 `json:"updated_ms,omitempty"`
}

// Open starts the scripts that the runtime's store has. A script that cannot be put in force is kept with its
// Problem. Close the service before the runtime.
func Open(ctx context.Context, rt *entity.Runtime, cfg Config) (*Service, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Behaviors.Prefix, cfg.Behaviors.Runners, cfg.Behaviors.Logger = "script", Runners, cfg.Logger
	s := &Service{rt: rt, may: cfg.May, log: cfg.Logger, behaviors: behavior.Open(rt, cfg.Behaviors), list: make(map[string]*Stored), trials: make(chan struct{}, MaxTrials)}
	docs, err := rt.Docs(ctx, kindScript)
	if err != nil {
		return nil, fmt.Errorf("open the scripts: %w", err)
	}
	for i := range docs {
		st, err := stored(&docs[i])
		if err == nil {
			err = s.start(ctx, st)
		}
		if err != nil {
			st.Problem = err.Error()
			s.log.LogAttrs(ctx, slog.LevelError, "a script cannot be put in force", slog.String("script", st.Name), slog.Any("error", err))
		}
		s.list[st.Name] = st
	}
	return s, nil
}

// stored reads a document. With an error it has the name and the versions alone.
func stored(d *entity.Doc) (*Stored, error) {
	st := &Stored{Name: d.ID, Version: d.Version, ETag: d.ETag(), Updated: d.Updated}
	var b body
	if err := json.Unmarshal(d.Body, &b); err != nil {
		return st, fmt.Errorf("script %q: %w", d.ID, err)
	}
	st.Script, st.Owner = b.Script, b.Owner
	return st, nil
}

// start puts a script in force.
func (s *Service) start(ctx context.Context, st *Stored) error {
	spec, err := st.compile(st.Name, nil)
	if err != nil {
		return err
	}
	spec.Version, spec.Allow = st.Version, s.allow(st.Owner)
	return s.behaviors.Register(ctx, spec)
}

func (s *Service) allow(owner string) func(entity.View) bool {
	return func(v entity.View) bool { return s.may(owner, v) }
}

// Close ends all scripts. What they have decided is carried out at the next start.
func (s *Service) Close(ctx context.Context) error { return s.behaviors.Close(ctx) }

// Check returns the error that Put would for a script under a name because of the script, and changes
// nothing. It is an [*Error], or wraps [entity.ErrInvalid] for the name.
func (s *Service) Check(name string, sc *Script) error {
	_, err := sc.compile(name, nil)
	return err
}

// Put puts a script in force, in the place of the one of its name, and keeps that among its versions. owner
// is who has written it; quota is how many scripts that one may own: with one below MaxScripts, the
// last Reserved of all scripts are left to others. condition is as for [entity.Runtime.PutDoc]. A
// script that is in force already, with the same owner, stays as it is. Once it is being stored, the
// end of ctx does not stop that. The errors are those of Check, ErrLimit, and [entity.ErrConflict]
// where the condition does not hold.
func (s *Service) Put(ctx context.Context, name string, sc Script, owner string, quota int, condition string) (Stored, error) {
	if err := s.Check(name, &sc); err != nil {
		return Stored{}, err
	}
	s.change.Lock()
	defer s.change.Unlock()
	old, others, own := s.find(name), 0, 0
	for _, st := range s.all() {
		if st.Name != name {
			others++
			if st.Owner == owner {
				own++
			}
		}
	}
	room := MaxScripts
	if old == nil && quota < MaxScripts {
		room -= Reserved
	}
	switch {
	case old != nil && old.Problem == "" && old.Owner == owner && old.same(&sc):
		return *old, entity.CheckCondition(condition, old.ETag)
	case others >= room:
		return Stored{}, fmt.Errorf("script %q: %w: there are %d, and at most %d are allowed for %q", name, ErrLimit, others, room, owner)
	case own >= quota:
		return Stored{}, fmt.Errorf("script %q: %w: %q may have at most %d", name, ErrLimit, owner, quota)
	}
	if old != nil {
		if err := s.keep(ctx, old); err != nil {
			return Stored{}, err
		}
	}
	text, err := json.Marshal(&body{Script: sc, Owner: owner})
	if err != nil {
		return Stored{}, fmt.Errorf("script %q: %w", name, err)
	}
	ctx, cancel, err := whole(ctx)
	if err != nil {
		return Stored{}, fmt.Errorf("script %q: %w", name, err)
	}
	defer cancel()
	if old == nil { // nothing of an earlier one may get to this owner
		if err := s.clear(ctx, name); err != nil {
			return Stored{}, err
		}
	}
	doc, err := s.rt.PutDoc(ctx, kindScript, name, text, condition)
	if err != nil {
		return Stored{}, fmt.Errorf("script %q: %w", name, err)
	}
	st := &Stored{Script: sc, Name: name, Owner: owner, Version: doc.Version, ETag: doc.ETag(), Updated: doc.Updated}
	if err = s.start(ctx, st); err != nil {
		st.Problem = err.Error()
		err = fmt.Errorf("script %q is kept, and put in force at the next start: %w", name, err)
	}
	s.mu.Lock()
	s.list[name] = st
	s.mu.Unlock()
	return *st, err
}

// changePatience is how long a change that has begun may take.
const changePatience = 30 * time.Second

// whole returns a context for a change that is not left half done when ctx ends. It fails where ctx
// has ended.
func whole(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changePatience)
	return ctx, cancel, nil
}

// versionKey is the key of an earlier version.
func versionKey(name string, version int64) string { return fmt.Sprintf("%s\x00%016x", name, version) }

// keep keeps a version among the earlier ones, and removes the oldest where there are too many.
func (s *Service) keep(ctx context.Context, st *Stored) error {
	text, err := json.Marshal(&body{st.Script, st.Owner, st.Version, st.Updated})
	if err != nil {
		return fmt.Errorf("version %d of script %q: %w", st.Version, st.Name, err)
	}
	list, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: kindVersions, From: st.Name + "\x00", To: st.Name + "\x01", Limit: entity.MaxItems})
	if err != nil {
		return fmt.Errorf("versions of script %q: %w", st.Name, err)
	}
	items := []entity.Item{{Kind: kindVersions, Key: versionKey(st.Name, st.Version), Body: text}}
	for i := 0; i < len(list)+1-MaxVersions; i++ {
		items = append(items, entity.Item{Kind: kindVersions, Key: list[i].Key})
	}
	if err := s.rt.PutItems(ctx, items); err != nil {
		return fmt.Errorf("version %d of script %q: %w", st.Version, st.Name, err)
	}
	return nil
}

// Delete takes a script out of force and forgets it, its versions and what it has kept of entities. What it has written
// stays. Once it is being deleted, the end of ctx does not stop that. It returns ErrNotFound, or
// [entity.ErrConflict] where the condition does not hold.
func (s *Service) Delete(ctx context.Context, name, condition string) error {
	s.change.Lock()
	defer s.change.Unlock()
	if s.find(name) == nil {
		return fmt.Errorf("script %.64q: %w", name, ErrNotFound)
	}
	ctx, cancel, err := whole(ctx)
	if err != nil {
		return fmt.Errorf("script %q: %w", name, err)
	}
	defer cancel()
	if err := s.rt.DeleteDoc(ctx, kindScript, name, condition); err != nil {
		return fmt.Errorf("script %q: %w", name, err)
	}
	s.mu.Lock()
	delete(s.list, name)
	s.mu.Unlock()
	return s.clear(ctx, name)
}

// clear takes a script out of force and removes its versions and what it has kept of entities.
func (s *Service) clear(ctx context.Context, name string) error {
	if err := s.behaviors.Remove(ctx, name); err != nil && !errors.Is(err, behavior.ErrNotFound) {
		return fmt.Errorf("script %q: %w", name, err)
	}
	list, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: kindVersions, From: name + "\x00", To: name + "\x01", Limit: entity.MaxItems})
	if err != nil {
		return fmt.Errorf("versions of script %q: %w", name, err)
	}
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		list[i].Body = nil
	}
	return s.rt.PutItems(ctx, list)
}

func (s *Service) find(name string) *Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[name]
}

func (s *Service) all() []*Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.list))
}

// Get returns a script, or ErrNotFound.
func (s *Service) Get(name string) (Stored, error) {
	if st := s.find(name); st != nil {
		return *st, nil
	}
	return Stored{}, fmt.Errorf("script %.64q: %w", name, ErrNotFound)
}

// List returns all scripts, by name.
func (s *Service) List() []Stored {
	var list []Stored
	for _, st := range s.all() {
		list = append(list, *st)
	}
	slices.SortFunc(list, func(a, b Stored) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Status tells what a script does. Of one that is not in force there is nothing to tell but its name and
// version.
func (s *Service) Status(name string) behavior.Status {
	st, err := s.behaviors.Status(name)
	if err != nil {
		st = behavior.Status{Name: name}
	}
	return st
}

// Versions returns the versions of a script, that in force first, then the earlier ones from the last on. It
// returns ErrNotFound.
func (s *Service) Versions(ctx context.Context, name string) ([]Stored, error) {
	now, err := s.Get(name)
	if err != nil {
		return nil, err
	}
	items, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: kindVersions, From: name + "\x00", To: name + "\x01", Limit: entity.MaxItems})
	if err != nil {
		return nil, fmt.Errorf("versions of script %q: %w", name, err)
	}
	list := []Stored{now}
	for _, item := range slices.Backward(items) {
		var b body
		if err := json.Unmarshal(item.Body, &b); err != nil {
			return nil, fmt.Errorf("version of script %q: %w", name, err)
		}
		if b.Version < now.Version { // that in force is there as well where its replacement has failed
			d := entity.Doc{Version: b.Version}
			list = append(list, Stored{Script: b.Script, Name: name, Owner: b.Owner, Version: b.Version, ETag: d.ETag(), Updated: b.Updated})
		}
	}
	return list, nil
}

// Version returns a version of a script, or ErrNotFound.
func (s *Service) Version(ctx context.Context, name string, version int64) (Stored, error) {
	list, err := s.Versions(ctx, name)
	if err != nil {
		return Stored{}, err
	}
	for i := range list {
		if list[i].Version == version {
			return list[i], nil
		}
	}
	return Stored{}, fmt.Errorf("version %d of script %.64q: %w", version, name, ErrNotFound)
}

// Switch switches a script on or off, and returns when that is durable. One that is switched on begins with what is
// committed from then on. It returns ErrNotFound.
func (s *Service) Switch(ctx context.Context, name string, on bool) error {
	if _, err := s.Get(name); err != nil {
		return err
	}
	return s.behaviors.Switch(ctx, name, on)
}

// Sync returns when a script has handled all that was committed before the call, and what came of it is
// done.
func (s *Service) Sync(ctx context.Context, name string) error { return s.behaviors.Sync(ctx, name) }

// State returns what a script keeps of an entity as JSON, nil for nothing.
func (s *Service) State(ctx context.Context, name, id string) ([]byte, error) {
	state, err := s.behaviors.State(ctx, name, id)
	if err != nil || state == nil {
		return nil, err
	}
	return stateJSON(state)
}

func stateJSON(state []byte) ([]byte, error) {
	t, err := lua.ParseState(state)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return appendJSON(nil, t, true)
}

// Step is what a script would have done about a reading.
type Step struct {
	behavior.Step
	// Kept is what it keeps of the entity after that as JSON, nil for nothing, or an error where
	// that cannot be shown as JSON.
	Kept []byte
	// Printed are the lines that it has printed, the first MaxPrinted.
	Printed []string
	// Line is that of the source where it has failed, from 1, 0 where none is known.
	Line int
}

// Try calls a script for readings of an entity's history and returns what it would have done, see
// [behavior.Service.Try]. The entity must be one that owner may write. The errors are those of Check and of
// that, and ErrBusy.
func (s *Service) Try(ctx context.Context, name string, sc *Script, owner string, t behavior.Trial) ([]Step, error) {
	select {
	case s.trials <- struct{}{}:
		defer func() { <-s.trials }()
	default:
		return nil, ErrBusy
	}
	var printed [][]string
	spec, err := sc.compile(cmp.Or(name, "script"), func(line string) {
		if last := len(printed) - 1; last >= 0 && len(printed[last]) < MaxPrinted {
			printed[last] = append(printed[last], line)
		}
	})
	if err != nil {
		return nil, err
	}
	spec.Allow = s.allow(owner)
	handle := spec.Handle
	spec.Handle = func(e *behavior.Entity, ev behavior.Event) error {
		printed = append(printed, nil)
		return handle(e, ev)
	}
	t.Kept = func() int {
		n := 0
		for _, line := range printed[len(printed)-1] {
			n += 16 + len(line)
		}
		return n
	}
	tried, err := s.behaviors.Try(ctx, spec, t)
	if err != nil {
		return nil, err
	}
	steps := make([]Step, len(tried))
	for i := range tried {
		steps[i] = Step{Step: tried[i], Printed: printed[i]}
		if tried[i].Err != nil {
			steps[i].Line = LineOf(tried[i].Err.Error(), sc.Source)
		}
		if tried[i].State != nil {
			if steps[i].Kept, err = stateJSON(tried[i].State); err != nil {
				steps[i].Kept = nil
			}
		}
	}
	return steps, nil
}
