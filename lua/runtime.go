package lua

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// The limits of a script and of its name, in bytes.
const (
	maxSource   = 256 << 10
	maxFileName = 256
)

// Config says where scripts are and what limits they have. A Config without a Path is refused.
type Config struct {
	// Path has the files of services, and the files that they require: "a.b" is a/b.lua. A file is
	// read when it is first needed, and again by Reload.
	Path fs.FS
	// Steps is how many instructions a handler may take until it ends or waits; 0 means 10 million.
	// What takes longer than an instruction counts as several.
	Steps int64
	// MemoryLimit is how many bytes the values of a service may take; 0 means 32 MiB.
	MemoryLimit int64
	// Services is how many services there may be at a time; 0 means 10 000.
	Services int
	// Types has the names of Go messages and errors: see [Mailbox]. It may be nil.
	Types *codec.Types
	// Mailboxes are the types of messages with which scripts may reach Go actors. Without any,
	// scripts cannot reach Go actors.
	Mailboxes []Mailbox
}

// The default limits.
const (
	defaultSteps  = 10_000_000
	defaultMemory = 32 << 20
	leastMemory   = 1 << 20

	defaultServices = 10_000
)

// withDefaults returns the configuration to go by, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Steps == 0 {
		c.Steps = defaultSteps
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = defaultMemory
	}
	if c.Services == 0 {
		c.Services = defaultServices
	}
	switch {
	case c.Services < 0:
		return c, fmt.Errorf("open lua runtime: Services must be 0 or more, not %d", c.Services)
	case c.Path == nil:
		return c, errors.New("open lua runtime: Path must say where scripts are, as os.DirFS does")
	case c.Steps < 0:
		return c, fmt.Errorf("open lua runtime: Steps must be 0 or more, not %d", c.Steps)
	case c.MemoryLimit < leastMemory:
		return c, fmt.Errorf("open lua runtime: MemoryLimit must be 0 or at least %d bytes, not %d", leastMemory, c.MemoryLimit)
	}
	return c, checkLayout()
}

// Runtime makes services of scripts. It is safe for concurrent use. [Open] makes one; it ends
// with its system.
type Runtime struct {
	sys     *actor.System
	cfg     Config
	started time.Time

	keeper actor.Ref[keeperMessage]
	words  *vocabulary

	accounts sync.Map // of living services, *account by actor.PID
	living   atomic.Int64

	mu      sync.Mutex                       // guards what follows
	files   map[string][]*version            // by name, the one in force first
	having  map[string]map[*account]struct{} // the services that have a file
	names   map[string]actor.Ref[Message]
	sharing map[string]*sharedBody
	lines   lines // written to the log
}

// Open returns a runtime for services of the system. It fails if the configuration has no Path, or
// an invalid limit.
func Open(sys *actor.System, cfg Config) (*Runtime, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	words, err := newVocabulary(sys, cfg)
	if err != nil {
		return nil, fmt.Errorf("open lua runtime: %w", err)
	}
	rt := &Runtime{
		words: words,
		sys:   sys, cfg: cfg, started: time.Now(), files: map[string][]*version{}, having: map[string]map[*account]struct{}{},
		names: map[string]actor.Ref[Message]{}, sharing: map[string]*sharedBody{},
	}
	rt.keeper, err = actor.TrySpawn(sys, "lua-*", func() *keeper {
		return &keeper{
			rt: rt, running: map[string]actor.Ref[Message]{},
			waiting: map[string][]*actor.Promised[actor.Ref[Message]]{},
		}
	})
	if err != nil {
		return nil, fmt.Errorf("open lua runtime: %w", err)
	}
	return rt, nil
}

// Spawn starts a service: it runs the file with the arguments, and then the function that the file
// has passed to greenroom.start. When Spawn returns, that function has ended. See [actor.TrySpawn]
// for the parent, the name and the errors, and [Send] for what the arguments may be. A restart runs
// the file again, with the same arguments.
func (rt *Runtime) Spawn(parent actor.Spawner, name, file string, args ...any) (actor.Ref[Message], error) {
	packed, err := packGo(args)
	if err != nil {
		return actor.Ref[Message]{}, fmt.Errorf("spawn %s: %w", file, err)
	}
	return rt.spawn(parent, name, file, packed)
}

func (rt *Runtime) spawn(parent actor.Spawner, name, file string, args []byte) (actor.Ref[Message], error) {
	if _, err := rt.version(file); err != nil {
		return actor.Ref[Message]{}, err
	}
	if rt.living.Add(1) > int64(rt.cfg.Services) {
		rt.living.Add(-1)
		return actor.Ref[Message]{}, fmt.Errorf("there are %d services already", rt.cfg.Services)
	}
	mail := &account{file: file}
	ref, err := actor.TrySpawn(parent, name, func() *service {
		return &service{rt: rt, file: file, args: args, account: mail}
	}, actor.Reentrant())
	if err != nil {
		rt.forget(mail)
		return ref, err
	}
	rt.sys.AfterEnd(ref.PID(), func(actor.Down) { rt.forget(mail) })
	return ref, nil
}

// accountOf returns the account of a service, nil if it has ended.
func (rt *Runtime) accountOf(pid actor.PID) *account {
	a, _ := rt.accounts.Load(pid)
	known, _ := a.(*account)
	return known
}

// version returns the version of a file that is in force; the file is read if it was not.
func (rt *Runtime) version(file string) (*version, error) {
	if len(file) > maxFileName {
		return nil, fmt.Errorf("script %.40q…: the name of a file must have at most %d bytes", file, maxFileName)
	}
	rt.mu.Lock()
	known := rt.files[file]
	rt.mu.Unlock()
	if len(known) > 0 {
		return known[0], nil
	}
	source, err := readSource(rt.cfg.Path, file) // twice, if two services come at once
	if err != nil {
		return nil, err
	}
	v, err := newVersion(file, source, "")
	if err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if known := rt.files[file]; len(known) > 0 {
		return known[0], nil
	}
	rt.files[file] = []*version{v}
	return v, nil
}

// readSource reads a file.
func readSource(path fs.FS, file string) (string, error) {
	f, err := path.Open(file)
	if err != nil {
		return "", fmt.Errorf("script %q: %w", file, err)
	}
	defer func() { _ = f.Close() }()
	source, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return "", fmt.Errorf("script %q: %w", file, err)
	}
	if len(source) > maxSource {
		return "", fmt.Errorf("script %q: a file must have at most %d bytes", file, maxSource)
	}
	return string(source), nil
}
