package lua

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// Reload says what [Runtime.Reload] does. Its zero value has no File and is refused.
type Reload struct {
	// File is a file of [Config].Path: the file of services, or one that they require.
	File string
	// To is the hash of the version to go back to, or its beginning. If it is empty, the file is
	// read.
	To string
	// Dry only makes the report: what would be changed.
	Dry bool
	// Who is recorded with the version.
	Who string
}

// Reloaded is what a reload has done.
type Reloaded struct {
	Version  Version           `json:"version"` // the one that is in force now
	Services []ReloadedService `json:"services"`
}

// ReloadedService is what a reload has done in a service. Functions are named by where they are
// found: CMD.move is a field of the local variable CMD, dispatch is the function passed to
// greenroom.dispatch, and start/1 is the first function written inside start's.
type ReloadedService struct {
	Address string   `json:"address"`
	From    string   `json:"from"`   // the hash of the version before
	Mended  []string `json:"mended"` // functions that have new code
	Added   []string `json:"added"`  // functions and variables that are new
	Left    []string `json:"left"`   // functions of the file that keep their old code, since the new one has none in their place
	Joined  []string `json:"joined"` // local variables that keep their values
	Err     error    `json:"-"`      // why the service keeps its old code
}

// MarshalJSON returns an object with the fields, and the text of Err as error.
func (r ReloadedService) MarshalJSON() ([]byte, error) {
	type fields ReloadedService
	shown := struct {
		fields
		Error string `json:"error,omitempty"`
	}{fields: fields(r)}
	if r.Err != nil {
		shown.Error = r.Err.Error()
	}
	return json.Marshal(shown)
}

// Reload replaces the code of services while they run, and the code of files that they require. The
// file is read and compiled; if that fails nothing happens. Then each service with the file runs it
// in its turn, next to what it has: functions in the same place get the new code, and keep their
// local variables and those of the file with their values, tables included. New functions are
// added; what the file no longer has stays as it is. Start's function is not called, and code at
// the top of the file that would send, start or end something does nothing. A function in progress,
// for example in a handler that waits, ends with its old code; what it calls is new.
//
// If there is then a global function on_reload, it is called with the hash of the previous version,
// and may convert what the old code has left. A service in which the file or on_reload fails keeps
// its old code, as the report says. Services that start later have the new version; if no service
// takes it, the old one stays in force. Reload fails if the file cannot be read or compiled, if the
// version is unknown, and if ctx has ended.
func (rt *Runtime) Reload(ctx context.Context, r Reload) (Reloaded, error) {
	v, err := rt.versionFor(r)
	if err != nil {
		return Reloaded{}, err
	}
	report := Reloaded{Version: v.Version}
	enacted := r.Dry
	for _, ref := range rt.servicesWith(r.File) {
		done, err := actor.Ask(ctx, ref, &reloading{version: v, dry: r.Dry})
		if errors.Is(err, actor.ErrStopped) {
			continue // it has ended meanwhile
		}
		done.Address = ref.String()
		if err != nil {
			done.Err = scriptError(err)
		} else if !enacted { // not before: a service that fails with it starts again with the old one
			rt.putInForce(v)
			enacted = true
		}
		report.Services = append(report.Services, done)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
	}
	switch {
	case enacted:
	case len(report.Services) == 0:
		rt.putInForce(v)
	default:
		if now, err := rt.version(r.File); err == nil {
			report.Version = now.Version
		}
	}
	return report, nil
}

// versionFor returns the version that a reload is about.
func (rt *Runtime) versionFor(r Reload) (*version, error) {
	if r.To != "" {
		return rt.versionOf(r.File, r.To)
	}
	source, err := readSource(rt.cfg.Path, r.File)
	if err != nil {
		return nil, err
	}
	return newVersion(r.File, source, r.Who)
}

// servicesWith returns the services that have a file: as their own, or as a module.
func (rt *Runtime) servicesWith(file string) []actor.Ref[Message] {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var list []actor.Ref[Message]
	for a := range rt.having[file] {
		if ref, err := actor.Lookup[Message](rt.sys, a.pid); err == nil {
			list = append(list, ref)
		}
	}
	slices.SortFunc(list, func(a, b actor.Ref[Message]) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// noteVersion notes which version of a file a service has.
func (rt *Runtime) noteVersion(a *account, v *version) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if a.ended {
		return
	}
	if rt.having[v.File] == nil {
		rt.having[v.File] = map[*account]struct{}{}
	}
	rt.having[v.File][a] = struct{}{}
	if a.versions == nil {
		a.versions = map[string]string{}
	}
	a.versions[v.File] = v.Hash
}

// reloading orders a service to take a version of a file.
type reloading struct {
	actor.Returns[ReloadedService]
	version *version
	dry     bool
}

func (*reloading) message() {}

// moduleName returns the name under which scripts require a file.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(file, path.Ext(file)), "/", ".")
}

// reload takes a version of a file.
func (s *service) reload(ctx *actor.Context[Message], m *reloading) error {
	before := s.versions[m.version.File]
	if before == nil {
		return actor.Refuse(ctx, fmt.Errorf("reload %s: the service does not have it", m.version.File))
	}
	report := ReloadedService{From: before.Hash}
	var j *joiner
	err := s.run(&task{what: reloadedFile}, s.root.NewFunction(func(l *glua.LState) int {
		again := s.runAgain(l, m.version)
		if s.versions[m.version.File] != before {
			l.RaiseError("another reload of the file came between")
		}
		j = newJoiner(s, l, m.version.File, before.chunk, m.version.chunk, m.dry)
		j.join(again, m.version.chunk)
		j.report(&report)
		if f, ok := s.root.G.Global.RawGetString("on_reload").(*glua.LFunction); ok && !m.dry {
			l.Push(f)
			l.Push(glua.LString(before.Hash))
			l.Call(1, 0)
		}
		return 0
	}))
	if err != nil {
		if j != nil {
			j.undo()
		}
		if errors.Is(err, ErrMemory) {
			return err
		}
		return actor.Refuse(ctx, err)
	}
	if !m.dry {
		s.versions[m.version.File] = m.version
		s.rt.noteVersion(s.account, m.version)
	}
	actor.Reply(ctx, m, report)
	return nil
}

// rerun is what the file has left when it was run again.
type rerun struct {
	globals *glua.LTable // that it has set
	env     *glua.LTable // its environment
	value   glua.LValue  // that it has returned
	begin   *glua.LFunction
	inits   []*glua.LFunction
	handler *glua.LFunction
	info    *glua.LFunction
}

// runAgain runs a file beside what the service has: what it gives to start, init and dispatch, and
// its globals, are kept apart.
func (s *service) runAgain(l *glua.LState, v *version) *rerun {
	r := &rerun{globals: s.root.CreateTable(0, 0), env: s.root.CreateTable(0, 0)}
	behind := s.root.CreateTable(0, 2)
	behind.RawSetString("__index", s.root.NewFunction(func(l *glua.LState) int {
		value := r.globals.RawGet(l.Get(2))
		if value == glua.LNil {
			value = l.GetTable(s.root.G.Global, l.Get(2))
		}
		l.Push(value)
		return 1
	}))
	behind.RawSetString("__newindex", r.globals)
	r.env.Metatable = behind
	chunk := s.root.NewFunctionFromProto(v.chunk)
	chunk.Env = r.env
	t := s.task
	t.rerun = r
	args := 0
	l.Push(chunk)
	if v.File == s.file {
		given, err := s.values.unpack(s.args)
		if err != nil {
			l.RaiseError("%s", err)
		}
		args = pushAll(l, given)
	} else {
		l.Push(glua.LString(moduleName(v.File)))
		args = 1
	}
	l.Call(args, 1)
	t.rerun = nil
	r.value = l.Get(-1)
	l.Pop(1)
	return r
}

// roots adds what the file has left to a walk.
func (r *rerun) roots(w *walker) {
	w.add(r.globals)
	w.add(r.value)
	for _, f := range append(r.inits, r.begin, r.handler, r.info) {
		w.add(f)
	}
}
