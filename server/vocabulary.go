package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

const (
	// vocabularySample is how many entities are scanned for names that a query box offers, besides
	// those that types declare.
	vocabularySample = 1000
	// vocabularyKept is how long the result is reused.
	vocabularyKept = 5 * time.Second
	// maxVocabulary bounds the names of each kind, and the values of each path.
	maxVocabulary = 2000
)

// vocabularies keeps the vocabulary of the query box for a moment, because each keystroke needs it.
type vocabularies struct {
	mu   sync.Mutex
	made time.Time
	kept *vocabulary
}

// vocabulary contains the names found in entities and types.
type vocabulary struct {
	paths     map[filter.Path]map[string]struct{} // with some of their values
	relations map[string]struct{}
	types     []string
}

// vocabulary returns what the query box can offer.
func (k *vocabularies) vocabulary(ctx context.Context, rt *entity.Runtime) (filter.Vocabulary, error) {
	var v *vocabulary
	var err error
	if callerOf(ctx).who.MayAll(access.Read) {
		v, err = k.get(ctx, rt)
	} else { // the caller might see none of the entities with a name
		v = newVocabulary(rt)
	}
	if err != nil {
		return filter.Vocabulary{}, err
	}
	out := filter.Vocabulary{Types: v.types, Relations: slices.Sorted(maps.Keys(v.relations))}
	for p := range v.paths {
		out.Paths = append(out.Paths, p)
	}
	slices.SortFunc(out.Paths, func(a, b filter.Path) int {
		return cmp.Or(cmp.Compare(a.Root, b.Root), strings.Compare(a.Name, b.Name))
	})
	if !callerOf(ctx).who.MayAll(access.Read) {
		return out, nil
	}
	out.IDs = func(prefix string) []string { return idsWith(ctx, rt, prefix) }
	out.Values = func(p filter.Path, prefix string) []string {
		var texts []string
		for text := range v.paths[p] {
			if strings.HasPrefix(text, prefix) {
				texts = append(texts, text)
			}
		}
		slices.Sort(texts)
		return texts[:min(len(texts), filter.MaxSuggestions)]
	}
	return out, nil
}

// idsWith returns some ids with a prefix.
func idsWith(ctx context.Context, rt *entity.Runtime, prefix string) []string {
	var ids []string
	take := func(v entity.View) bool {
		if !strings.HasPrefix(v.ID(), prefix) {
			return false
		}
		ids = append(ids, v.ID())
		return len(ids) < filter.MaxSuggestions
	}
	// Errors only mean fewer suggestions. After excludes the prefix itself.
	if prefix != "" {
		_ = rt.Scan(ctx, entity.ListQuery{IDs: []string{prefix}}, take)
	}
	_ = rt.Scan(ctx, entity.ListQuery{After: prefix}, take)
	return ids
}

func (k *vocabularies) get(ctx context.Context, rt *entity.Runtime) (*vocabulary, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept != nil && time.Since(k.made) < vocabularyKept {
		return k.kept, nil
	}
	v := newVocabulary(rt)
	seen := 0
	err := rt.Scan(ctx, entity.ListQuery{}, func(e entity.View) bool {
		v.look(e)
		seen++
		return seen < vocabularySample
	})
	if err != nil {
		return nil, err
	}
	k.kept, k.made = v, time.Now()
	return v, nil
}

// newVocabulary returns what types declare.
func newVocabulary(rt *entity.Runtime) *vocabulary {
	v := &vocabulary{paths: make(map[filter.Path]map[string]struct{}), relations: make(map[string]struct{})}
	v.declared(rt)
	for _, member := range filter.PresenceMembers() {
		v.add(filter.Path{Root: filter.RootPresence, Name: member}, "")
	}
	return v
}

// declared adds the names that types declare.
func (v *vocabulary) declared(rt *entity.Runtime) {
	for _, t := range rt.Types() {
		v.types = append(v.types, t.ID)
		resolved, err := rt.ResolvedType(t.ID)
		if err != nil {
			continue // deleted since
		}
		for key := range resolved.Telemetry {
			v.add(filter.Path{Root: filter.RootLatest, Name: key}, "")
		}
		for name := range resolved.Properties {
			for root := filter.RootAttributes; root <= filter.RootReported; root++ {
				v.add(filter.Path{Root: root, Name: entity.Pointer(strings.Split(name, "/")...)}, "")
			}
		}
		for name := range resolved.Relations {
			v.relations[name] = struct{}{}
		}
	}
}

// look adds the names in an entity.
func (v *vocabulary) look(e entity.View) {
	for l := range e.EachLatest() {
		v.add(filter.Path{Root: filter.RootLatest, Name: l.Key}, textOf(l.Value))
	}
	for _, root := range []filter.Root{filter.RootAttributes, filter.RootDesired, filter.RootReported} {
		section, _ := entityview.Section(root)
		for a := range e.EachAttribute(section) {
			v.add(filter.Path{Root: root, Name: a.Path}, textOf(a.Value))
		}
	}
	for r := range e.Relations(entity.Out) {
		if len(v.relations) < maxVocabulary {
			v.relations[r.Type] = struct{}{}
		}
	}
}

func textOf(v value.Value) string {
	if v.Kind() != value.KindString {
		return ""
	}
	return v.Text()
}

// add adds a path and, unless it is "", a value.
func (v *vocabulary) add(p filter.Path, text string) {
	texts, ok := v.paths[p]
	if !ok {
		if len(v.paths) >= maxVocabulary {
			return
		}
		texts = make(map[string]struct{})
		v.paths[p] = texts
	}
	if text != "" && len(texts) < maxVocabulary && len(text) <= entity.MaxKeyBytes {
		texts[text] = struct{}{}
	}
}
