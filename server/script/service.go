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

// Kinds of stored data.
const (
	kindScript   = "script"         // documents, by name
	kindVersions = "script-version" // items: earlier versions
)

// Config configures a Service.
type Config struct {
	// May reports whether an owner may write an entity. It is called before each call of a script,
	// concurrently. It is required.
	May func(owner Owner, v entity.View) bool
	// Identity returns the identity of the principal who has had a name since before a time, in milliseconds since
	// the epoch, or "". It completes the owners of scripts that were stored by versions without identities, and may
	// be called concurrently. If it is nil, these have none.
	Identity func(owner string, at int64) string
	// Logger logs what an operator should know. The default is slog.Default.
	Logger *slog.Logger
	// Behaviors configures the execution of scripts. Its Prefix, Runners and Logger are ignored.
	Behaviors behavior.Config
}

// Service stores scripts on an entity runtime and runs them. Create one with Open. Its methods may
// be called concurrently.
type Service struct {
	rt        *entity.Runtime
	may       func(owner Owner, v entity.View) bool
	identity  func(owner string, at int64) string
	log       *slog.Logger
	behaviors *behavior.Service
	trials    trials
	shares    shares

	change sync.Mutex // held while a script is put or deleted
	mu     sync.Mutex
	list   map[string]*Stored // guarded by mu; entries are immutable
}

// Owner is the principal who wrote a script.
type Owner struct {
	Name string
	// Identity is the principal's: a principal who is created later under the same name is another
	// owner.
	Identity string
}

// Stored is a script as the service stores it.
type Stored struct {
	Script
	Name string
	// Owner is the principal who wrote the script. It affects only entities that the owner may
	// write.
	Owner Owner
	// Version is the number of the version, and ETag its entity tag for conditions.
	Version int64
	ETag    string
	// Updated is when the version was stored, in milliseconds since the epoch.
	Updated int64
	// Problem says why the script is not in force; "" if it is.
	Problem string
}

// body is the stored form of a version.
type body struct {
	Script
	Owner    string `json:"owner,omitempty"`
	Identity string `json:"identity,omitempty"` // the owner's
	// Version and Updated are set for earlier versions; a document has its own.
	Version int64 `json:"version,omitempty"`
	Updated int64 `json:"updated_ms,omitempty"`
}

// Open starts the scripts in the runtime's store. A script that cannot be put in force is kept,
// with its Problem. Close the service before the runtime.
func Open(ctx context.Context, rt *entity.Runtime, cfg Config) (*Service, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Identity == nil {
		cfg.Identity = func(string, int64) string { return "" }
	}
	cfg.Behaviors.Prefix, cfg.Behaviors.Runners, cfg.Behaviors.Logger = "script", Runners, cfg.Logger
	s := &Service{rt: rt, may: cfg.May, identity: cfg.Identity, log: cfg.Logger, behaviors: behavior.Open(rt, cfg.Behaviors), list: make(map[string]*Stored), trials: trials{under: make(map[Owner]bool)}, shares: shares{owners: make(map[Owner]*share)}}
	err := rt.EachDoc(ctx, kindScript, func(d *entity.Doc) error {
		st, err := s.stored(d)
		if err == nil {
			err = s.start(ctx, st)
		}
		if err != nil {
			st.Problem = err.Error()
			s.log.LogAttrs(ctx, slog.LevelError, "a script cannot be put in force", slog.String("script", st.Name), slog.Any("error", err))
		}
		s.list[st.Name] = st
		return nil
	})
	if err != nil {
		_ = s.Close(ctx) // those of earlier pages have been started
		return nil, fmt.Errorf("open the scripts: %w", err)
	}
	return s, nil
}

// stored decodes a document. On an error, it sets everything except Script and Owner.
func (s *Service) stored(d *entity.Doc) (*Stored, error) {
	st := &Stored{Name: d.ID, Version: d.Version, ETag: d.ETag(), Updated: d.Updated}
	var b body
	if err := json.Unmarshal(d.Body, &b); err != nil {
		return st, fmt.Errorf("script %q: %w", d.ID, err)
	}
	st.Script, st.Owner = b.Script, s.ownerOf(&b, d.Updated)
	return st, nil
}

// ownerOf returns the owner of a version that was stored at a time.
func (s *Service) ownerOf(b *body, at int64) Owner {
	return Owner{b.Owner, cmp.Or(b.Identity, s.identity(b.Owner, at))}
}

// start puts a script in force.
func (s *Service) start(ctx context.Context, st *Stored) error {
	spec, err := st.compile(st.Name, program{rest: s.restOf(st.Owner)})
	if err != nil {
		return err
	}
	spec.Version, spec.Allow = st.Version, s.allow(st.Owner)
	return s.behaviors.Register(ctx, spec)
}

// restOf returns what is asked how long a script of an owner is to rest after so many steps.
func (s *Service) restOf(owner Owner) func(steps int64) time.Duration {
	return func(steps int64) time.Duration { return s.shares.spend(owner, steps, time.Now()) }
}

func (s *Service) allow(owner Owner) func(entity.View) bool {
	return func(v entity.View) bool { return s.may(owner, v) }
}

// Close stops all scripts. Effects that they have decided on take place at the next start.
func (s *Service) Close(ctx context.Context) error { return s.behaviors.Close(ctx) }

// Check returns the error that Put would return because of the name or the script, and changes
// nothing. It is an [*Error], or wraps [entity.ErrInvalid] for the name.
func (s *Service) Check(name string, sc *Script) error {
	_, err := sc.compile(name, program{})
	return err
}

// Put stores a script and puts it in force, replacing the script of that name, which becomes an
// earlier version. owner is its author; quota is how many scripts the owner may have: if it is
// below MaxScripts, the last Reserved of all scripts are left to others. condition is as for
// [entity.Runtime.PutDoc]. A script that is in force already, with the same owner, is not changed.
// Once storing has begun, it continues even if ctx ends. The errors are those of Check, ErrLimit,
// and [entity.ErrConflict] if the condition does not hold.
func (s *Service) Put(ctx context.Context, name string, sc Script, owner Owner, quota int, condition string) (Stored, error) {
	return s.put(ctx, name, sc, owner, quota, condition, false)
}

// PutDisabled is Put for a script that does nothing until it is switched on. One that is in force already is
// switched off.
func (s *Service) PutDisabled(ctx context.Context, name string, sc Script, owner Owner, quota int, condition string) (Stored, error) {
	return s.put(ctx, name, sc, owner, quota, condition, true)
}

func (s *Service) put(ctx context.Context, name string, sc Script, owner Owner, quota int, condition string, disabled bool) (Stored, error) {
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
		if err := entity.CheckCondition(condition, old.ETag); err != nil || !disabled {
			return *old, err
		}
		if err := s.behaviors.Disable(ctx, name); err != nil {
			return Stored{}, fmt.Errorf("script %q: %w", name, err)
		}
		return *old, nil
	case others >= room:
		return Stored{}, fmt.Errorf("script %q: %w: there are %d, and at most %d are allowed for %q", name, ErrLimit, others, room, owner.Name)
	case own >= quota:
		return Stored{}, fmt.Errorf("script %q: %w: %q may have at most %d", name, ErrLimit, owner.Name, quota)
	}
	if old != nil {
		if err := s.keep(ctx, old); err != nil {
			return Stored{}, err
		}
	}
	text, err := json.Marshal(&body{Script: sc, Owner: owner.Name, Identity: owner.Identity})
	if err != nil {
		return Stored{}, fmt.Errorf("script %q: %w", name, err)
	}
	ctx, cancel, err := whole(ctx)
	if err != nil {
		return Stored{}, fmt.Errorf("script %q: %w", name, err)
	}
	defer cancel()
	if old == nil { // this owner must not get data of an earlier script
		if err := s.clear(ctx, name); err != nil {
			return Stored{}, err
		}
	}
	if disabled {
		if err := s.behaviors.Disable(ctx, name); err != nil {
			return Stored{}, fmt.Errorf("script %q: %w", name, err)
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

// changePatience bounds a change that has begun.
const changePatience = 30 * time.Second

// whole returns a context for a change that must not be left incomplete when ctx ends. It fails if
// ctx has ended.
func whole(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changePatience)
	return ctx, cancel, nil
}

// versionKey returns the key of an earlier version.
func versionKey(name string, version int64) string { return fmt.Sprintf("%s\x00%016x", name, version) }

// keep stores an earlier version, and removes the oldest ones beyond the limit.
func (s *Service) keep(ctx context.Context, st *Stored) error {
	text, err := json.Marshal(&body{st.Script, st.Owner.Name, st.Owner.Identity, st.Version, st.Updated})
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

// Delete deletes a script, its versions and its state of entities. What it has written stays. Once
// deleting has begun, it continues even if ctx ends. It returns ErrNotFound, or
// [entity.ErrConflict] if the condition does not hold.
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

// clear takes a script out of force, and deletes its versions and its state of entities.
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

// Status returns the status of a script. For one that is not in force, it contains only the name.
func (s *Service) Status(name string) behavior.Status {
	st, err := s.behaviors.Status(name)
	if err != nil {
		st = behavior.Status{Name: name}
	}
	return st
}

// Versions returns the versions of a script: the one in force, and then the earlier ones, latest
// first. It returns ErrNotFound if there is none.
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
		if b.Version < now.Version { // the version in force is stored as well if replacing it has failed
			d := entity.Doc{Version: b.Version}
			list = append(list, Stored{Script: b.Script, Name: name, Owner: s.ownerOf(&b, b.Updated), Version: b.Version, ETag: d.ETag(), Updated: b.Updated})
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

// Switch enables or disables a script, and returns when that is durable. An enabled script starts
// with what is committed from then on. It returns ErrNotFound if there is no such script.
func (s *Service) Switch(ctx context.Context, name string, on bool) error {
	if _, err := s.Get(name); err != nil {
		return err
	}
	return s.behaviors.Switch(ctx, name, on)
}

// Sync returns when a script has handled everything that was committed before the call, and its
// effects have taken place.
func (s *Service) Sync(ctx context.Context, name string) error { return s.behaviors.Sync(ctx, name) }

// State returns the state that a script keeps for an entity as JSON, or nil.
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
	// Kept is the state that it keeps for the entity afterwards as JSON; nil if there is none, or
	// it cannot be represented as JSON.
	Kept []byte
	// Printed contains the lines that it has printed, at most MaxPrinted.
	Printed []string
	// Line is the line of the source where it failed, from 1; 0 if it is not known.
	Line int
}

// Try calls a script for readings in an entity's history and returns what it would have done, see
// [behavior.Service.Try]. The owner must be permitted to write the entity. The errors are those of
// Check and of behavior.Service.Try, and ErrBusy.
func (s *Service) Try(ctx context.Context, name string, sc *Script, owner Owner, t behavior.Trial) ([]Step, error) {
	end, err := s.trials.begin(owner)
	if err != nil {
		return nil, err
	}
	defer end()
	var printed [][]string
	spec, err := sc.compile(cmp.Or(name, "script"), program{rest: s.restOf(owner), printed: func(line string) {
		if last := len(printed) - 1; last >= 0 && len(printed[last]) < MaxPrinted {
			printed[last] = append(printed[last], line)
		}
	}})
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
