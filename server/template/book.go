package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// ErrTooMany is returned by Put if there are already MaxTemplates templates, or if they would take
// more than MaxAllCompiledBytes of memory.
var ErrTooMany = errors.New("too many templates")

// kindTemplate is the kind of the templates' documents.
const kindTemplate = "template"

// Docs is the part of the store that a Book needs. An entity.Runtime implements it.
type Docs interface {
	Docs(ctx context.Context, kind string) ([]entity.Doc, error)
	PutDoc(ctx context.Context, kind, id string, body []byte, condition string) (entity.Doc, error)
	DeleteDoc(ctx context.Context, kind, id, condition string) error
}

// Stored is a template with its name and version.
type Stored struct {
	Name    string
	ETag    string
	Updated int64 // milliseconds since the epoch
	Template
	// Problem says why the template is not in force; "" if it is.
	Problem string
}

// Book holds the templates of a server. Create one with Open. Its methods may be called
// concurrently.
type Book struct {
	docs  Docs
	log   *slog.Logger
	taken []Taken
	most  int // bytes of memory of the compiled templates

	editing sync.Mutex        // held while templates are changed
	stored  map[string]Stored // guarded by reading
	reading sync.RWMutex
	set     atomic.Pointer[set] // the templates in force
	now     func() time.Time    // replaced in tests
}

// Open reads the templates from the store. It logs those that can no longer be used and keeps them,
// but not in force. taken lists the topics that no template may use.
func Open(ctx context.Context, docs Docs, log *slog.Logger, taken []Taken) (*Book, error) {
	return open(ctx, &Book{docs: docs, log: log, taken: taken, most: MaxAllCompiledBytes, now: time.Now})
}

// open is Open of a book that is set up.
func open(ctx context.Context, b *Book) (*Book, error) {
	b.editing.Lock()
	defer b.editing.Unlock()
	return b, b.load(ctx)
}

// load reads all templates. The caller holds editing.
func (b *Book) load(ctx context.Context) error {
	docs, err := b.docs.Docs(ctx, kindTemplate)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	stored := make(map[string]Stored, len(docs))
	inForce := &set{byName: map[string]*compiled{}, most: b.most}
	for i := range docs {
		s := newStored(&docs[i])
		t, err := Parse(docs[i].Body)
		if err == nil {
			s.Template = *t
			err = b.restore(inForce, s.Name, t)
		}
		if err != nil {
			s.Problem = err.Error()
			b.log.LogAttrs(ctx, slog.LevelError, "a template cannot be used", slog.String("template", s.Name), slog.Any("error", err))
		}
		stored[s.Name] = s
	}
	b.publish(stored, inForce)
	return nil
}

// restore puts a stored template in force again.
func (b *Book) restore(into *set, name string, t *Template) error {
	c, err := t.compile(name)
	if err != nil {
		return err
	}
	return into.add(c, b.taken)
}

func newStored(d *entity.Doc) Stored { return Stored{Name: d.ID, ETag: d.ETag(), Updated: d.Updated} }

// publish puts templates in force. The caller holds editing.
func (b *Book) publish(stored map[string]Stored, s *set) {
	b.reading.Lock()
	b.stored = stored
	b.reading.Unlock()
	if old := b.set.Load(); old != nil {
		s.version = old.version + 1
	}
	b.set.Store(s)
}

// List returns all templates, by name.
func (b *Book) List() []Stored {
	b.reading.RLock()
	defer b.reading.RUnlock()
	list := make([]Stored, 0, len(b.stored))
	for _, name := range slices.Sorted(maps.Keys(b.stored)) {
		list = append(list, b.stored[name])
	}
	return list
}

// Get returns a template, or an error that wraps entity.ErrNotFound.
func (b *Book) Get(name string) (Stored, error) {
	b.reading.RLock()
	defer b.reading.RUnlock()
	s, ok := b.stored[name]
	if !ok {
		return s, fmt.Errorf("template %q: %w", name, entity.ErrNotFound)
	}
	return s, nil
}

// Put stores a template under a name and puts it in force, if condition holds for the template that
// had the name: see entity.Runtime.PutDoc. It returns when the template is durable; it applies from
// the next message on. The error is an *Error for a mistake in the template; it wraps ErrTaken if
// another owner has its topics, ErrTooMany, or an error of PutDoc.
func (b *Book) Put(ctx context.Context, name string, t *Template, condition string) (Stored, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return Stored{}, fmt.Errorf("template: %w: %w", entity.ErrInvalid, err)
	}
	if len(body) > MaxTemplateBytes {
		return Stored{}, fmt.Errorf("template: %w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxTemplateBytes, len(body))
	}
	b.editing.Lock()
	defer b.editing.Unlock()
	next, err := b.with(name, t)
	if err != nil {
		return Stored{}, err
	}
	doc, err := b.docs.PutDoc(ctx, kindTemplate, name, body, condition)
	if err != nil {
		return Stored{}, b.failed(ctx, err)
	}
	s := newStored(&doc)
	s.Template = *t
	stored := b.copied()
	stored[name] = s
	b.publish(stored, next)
	return s, nil
}

// with returns the templates in force plus one more.
func (b *Book) with(name string, t *Template) (*set, error) {
	c, err := t.compile(name)
	if err != nil {
		return nil, err
	}
	if _, known := b.stored[name]; !known && len(b.stored) >= MaxTemplates {
		return nil, fmt.Errorf("%w: there are %d, which is the limit; delete one", ErrTooMany, len(b.stored))
	}
	list := b.others(name)
	return newSet(append(list, c), b.taken, b.most)
}

// others returns the templates in force except one.
func (b *Book) others(name string) (list []*compiled) {
	s := b.set.Load()
	for _, other := range slices.Sorted(maps.Keys(s.byName)) {
		if other != name {
			list = append(list, s.byName[other])
		}
	}
	return list
}

func (b *Book) copied() map[string]Stored {
	b.reading.RLock()
	defer b.reading.RUnlock()
	return maps.Clone(b.stored)
}

// failed reads the templates again after an error that leaves unknown what the store holds.
func (b *Book) failed(ctx context.Context, err error) error {
	if errors.Is(err, entity.ErrConflict) || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrInvalid) {
		return err
	}
	if again := b.load(context.WithoutCancel(ctx)); again != nil {
		return errors.Join(err, again)
	}
	return err
}

// Delete removes a template, under the same conditions as Put. It returns entity.ErrNotFound if
// there is none.
func (b *Book) Delete(ctx context.Context, name, condition string) error {
	b.editing.Lock()
	defer b.editing.Unlock()
	if err := b.docs.DeleteDoc(ctx, kindTemplate, name, condition); err != nil {
		return b.failed(ctx, err)
	}
	err := b.load(context.WithoutCancel(ctx)) // a template that conflicted with it may be in force now
	if err == nil {
		return nil
	}
	stored := b.copied()
	delete(stored, name)
	if next, left := newSet(b.others(name), b.taken, b.most); left == nil {
		b.publish(stored, next)
	}
	return err
}

// Trial tests a template beside those in force. It is immutable.
type Trial struct {
	set  *set
	name string
	t    *Template
	now  func() time.Time
}

// NewTrial returns a trial of a template that would replace the one with the given name; name is ""
// for a new template. Nothing is stored. The errors are those of Put.
func (b *Book) NewTrial(name string, t *Template) (*Trial, error) {
	b.editing.Lock()
	defer b.editing.Unlock()
	next, err := b.with(name, t)
	if err != nil {
		return nil, err
	}
	return &Trial{next, name, t, b.now}, nil
}

// use returns the use of a topic by the template.
func (t *Trial) use(topic string) (*use, []string, error) {
	u, levels := t.set.find(topic)
	switch {
	case u == nil:
		return nil, nil, &Error{In: "topic", Text: fmt.Sprintf("%s does not take the topic %.128q", t.t.Topic, topic)}
	case u.template.name != t.name:
		return nil, nil, &Error{In: "topic", Text: fmt.Sprintf("template %q takes the topic %.128q, as %s is closer to it", u.template.name, topic, u.topic.shape())}
	case u.role != receives:
		return nil, nil, &Error{In: "topic", Text: fmt.Sprintf("%.128q is a %s of the template", topic, roleNames[u.role])}
	default:
		return u, levels, nil
	}
}

// Read returns the outcome of a message. The error says why the message would be refused: it is an
// *Error if the template is involved, and otherwise wraps entity.ErrInvalid.
func (t *Trial) Read(topic string, payload []byte) (*Outcome, error) {
	u, levels, err := t.use(topic)
	if err != nil {
		return nil, err
	}
	return u.template.read(levels, payload, t.now())
}

// Send returns the message for a command to the entity that a topic is about. request is JSON, or
// empty for none.
func (t *Trial) Send(topic, name string, request []byte) (Sent, error) {
	u, levels, err := t.use(topic)
	if err != nil {
		return Sent{}, err
	}
	way := u.template.routeOf(name)
	if way == nil {
		return Sent{}, &Error{In: "commands", Text: fmt.Sprintf("there is none for %.64q", name)}
	}
	command := entity.Command{Name: name}
	if len(request) > 0 {
		d := &document{json: string(request)}
		command.Request, _ = d.at(nil)
	}
	return way.render(&command, 1, u.topic.bind(levels))
}
