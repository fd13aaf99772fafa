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

// ErrTooMany is returned where there are MaxTemplates templates.
var ErrTooMany = errors.New("too many templates")

// kindTemplate is the kind of the documents of templates.
const kindTemplate = "template"

// Docs is what a Book needs of the store. entity.Runtime is one.
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
	// Problem is why it is not in force, "" where it is.
	Problem string
}

// Book has the templates that are in force. Its methods may be called concurrently. Make it with Open.
type Book struct {
	docs  Docs
	log   *slog.Logger
	taken []Taken

	editing sync.Mutex          // held while templates are changed
	stored  map[string]Stored   // guarded by reading
	reading sync.RWMutex        // for stored
	set     atomic.Pointer[set] // those in force
	now     func() time.Time    // a test's clock
}

// Open reads the templates from the store. One that can no longer be used is logged and kept, but not
// in force. taken are topics that no template can have.
func Open(ctx context.Context, docs Docs, log *slog.Logger, taken []Taken) (*Book, error) {
	b := &Book{docs: docs, log: log, taken: taken, now: time.Now}
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
	inForce := &set{byName: map[string]*compiled{}}
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

// restore puts a template in force that was before.
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

// Put puts a template in force in the place of the one of that name, if condition holds for that: see
// entity.Runtime.PutDoc. It returns when that is durable; the next message finds it. The error is an
// *Error for a mistake in the template, and wraps ErrTaken where something else has its topics,
// ErrTooMany, or an error of PutDoc.
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

// with returns the templates in force with one more.
func (b *Book) with(name string, t *Template) (*set, error) {
	c, err := t.compile(name)
	if err != nil {
		return nil, err
	}
	if _, known := b.stored[name]; !known && len(b.stored) >= MaxTemplates {
		return nil, fmt.Errorf("%w: there are %d, which is the limit; delete one", ErrTooMany, len(b.stored))
	}
	list := b.others(name)
	return newSet(append(list, c), b.taken)
}

// others returns the templates in force but one.
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

// failed reads the templates again where it is not known what the store has after an error.
func (b *Book) failed(ctx context.Context, err error) error {
	if errors.Is(err, entity.ErrConflict) || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrInvalid) {
		return err
	}
	if again := b.load(context.WithoutCancel(ctx)); again != nil {
		return errors.Join(err, again)
	}
	return err
}

// Delete takes a template out of force and removes it, under the conditions of Put. It returns
// entity.ErrNotFound where there is none.
func (b *Book) Delete(ctx context.Context, name, condition string) error {
	b.editing.Lock()
	defer b.editing.Unlock()
	if err := b.docs.DeleteDoc(ctx, kindTemplate, name, condition); err != nil {
		return b.failed(ctx, err)
	}
	err := b.load(context.WithoutCancel(ctx)) // one that it kept out of force may be used now
	if err == nil {
		return nil
	}
	stored := b.copied()
	delete(stored, name)
	if next, left := newSet(b.others(name), b.taken); left == nil {
		b.publish(stored, next)
	}
	return err
}

// Trial is a template that is tried beside those in force. It does not change.
type Trial struct {
	set  *set
	name string
	t    *Template
	now  func() time.Time
}

// NewTrial returns a template to be tried in the place of the one of a name, "" for a new one. Nothing is kept. The
// error is one of Put.
func (b *Book) NewTrial(name string, t *Template) (*Trial, error) {
	b.editing.Lock()
	defer b.editing.Unlock()
	next, err := b.with(name, t)
	if err != nil {
		return nil, err
	}
	return &Trial{next, name, t, b.now}, nil
}

// use returns what of the template takes a topic.
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

// Read returns what becomes of a message. The error says why it would be refused: an *Error where the
// template has a part in that, and otherwise one that wraps entity.ErrInvalid.
func (t *Trial) Read(topic string, payload []byte) (*Outcome, error) {
	u, levels, err := t.use(topic)
	if err != nil {
		return nil, err
	}
	return u.template.read(levels, payload, t.now())
}

// Send returns the message with a command, of the entity that a topic is about. request is JSON, or
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
