package entity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/greenroom-go/greenroom/entity/value"
)

// state is the state of an entity. It has a slot for each key, ordered by the key's number and
// found by binary search. It is owned by the entity's actor.
type state struct {
	slots    []slot
	seq      uint64   // of the last reading
	created  int64    // milliseconds since the epoch, 0 for an entity that does not exist
	revision uint64   // of the last edit
	typ      string   // "" for none
	texts    int      // bytes of all texts of slots
	presence Presence // as it was last made durable, or is about to be
	more     *extras
}

// extras is the part of the state that many entities do not need.
type extras struct {
	bytes    int64                  // size of the sections
	sections [len(sections)]section // by Section - 1
	applied  map[string]uint64      // the last Origin.Seq of each source of computed readings
	origins  map[uint32]Origin      // of the computed latest values, by key
	commands commandQueue
}

// section returns the leaves of a section.
func (s *state) section(sec Section) section {
	if s.more == nil {
		return nil
	}
	return s.more.sections[sec-1]
}

func (s *state) extras() *extras {
	if s.more == nil {
		s.more = new(extras)
	}
	return s.more
}

// repeated reports whether the source's reading has been accepted before.
func (s *state) repeated(o Origin) bool {
	return !o.IsZero() && s.more != nil && s.more.applied[o.Source] >= o.Seq
}

// slot is the latest value of a key: 48 bytes plus any text.
type slot struct {
	ts   int64
	seq  uint64
	bits uint64
	text string
	key  uint32
	kind value.Kind
}

// newer is the rule for the latest value: by event time, then by sequence. If both are equal, the
// value that comes later wins.
func newer(ts int64, seq uint64, thanTS int64, thanSeq uint64) bool {
	return ts > thanTS || ts == thanTS && seq >= thanSeq
}

// find returns the index at which the key is or would be inserted, and whether it is there.
func (s *state) find(key uint32) (int, bool) {
	return slices.BinarySearchFunc(s.slots, key, func(sl slot, key uint32) int { return cmp.Compare(sl.key, key) })
}

// set stores a value in the slot of a key unless it is late. It reports whether the value is now
// the latest.
func (s *state) set(key uint32, ts int64, seq uint64, v value.Value) bool {
	i, ok := s.find(key)
	switch {
	case !ok:
		s.slots = slices.Insert(s.slots, i, slot{key: key})
	case !newer(ts, seq, s.slots[i].ts, s.slots[i].seq):
		return false
	}
	sl := &s.slots[i]
	var text string
	sl.ts, sl.seq = ts, seq
	sl.kind, sl.bits, text = v.Raw()
	if text != sl.text {
		s.texts += len(text) - len(sl.text)
		sl.text = strings.Clone(text) // it may be part of a payload
	}
	return true
}

// apply accepts readings, with one sequence for each, and reports which of their samples came late:
// nil if none did, otherwise one element for each sample of all readings. It accepts all of them
// or, with ErrTooManyKeys, none. by is the sender.
func (s *state) apply(readings []Reading, from Origin, keys *keyTable, by string) (late []bool, err error) {
	if err := s.checkSource(from); err != nil {
		return nil, err
	}
	samples := 0
	for i := range readings {
		samples += len(readings[i].Values)
	}
	if len(s.slots)+samples > MaxEntityKeys || !keys.surelyFits(samples) {
		if err := s.checkRoom(readings, keys, by); err != nil {
			return nil, err
		}
	}
	if s.slots == nil { // most entities report all their keys in each reading
		s.slots = make([]slot, 0, len(readings[0].Values))
	}
	n := 0
	for i := range readings {
		r := &readings[i]
		s.seq++
		for j := range r.Values {
			key := keys.id(r.Values[j].Key, by)
			if !s.set(key, r.TS, s.seq, r.Values[j].Value) {
				if late == nil {
					late = make([]bool, samples)
				}
				late[n] = true
			} else if !from.IsZero() || s.more != nil && s.more.origins != nil {
				s.setOrigin(key, from)
			}
			n++
		}
	}
	s.computedBy(from)
	return late, nil
}

// computedBy records that a source's computed readings were accepted.
func (s *state) computedBy(from Origin) {
	if from.IsZero() {
		return
	}
	m := s.extras()
	if m.applied == nil {
		m.applied = make(map[string]uint64)
	}
	m.applied[from.Source] = from.Seq
}

// checkSource bounds how many sources the entity remembers. If there are too many, earlier versions
// of the same source are forgotten: a mapping that has been replaced computes nothing any more.
func (s *state) checkSource(from Origin) error {
	if from.IsZero() || s.more == nil || len(s.more.applied) < MaxEntitySources {
		return nil
	}
	if _, ok := s.more.applied[from.Source]; ok {
		return nil
	}
	name, version := cutVersion(from.Source)
	maps.DeleteFunc(s.more.applied, func(source string, _ uint64) bool {
		n, v := cutVersion(source)
		return version != "" && n == name && v != version
	})
	if len(s.more.applied) < MaxEntitySources {
		return nil
	}
	return fmt.Errorf("source %q: %w: %d others compute readings of the entity already; no more are allowed", from.Source, ErrInvalid, MaxEntitySources)
}

// cutVersion returns the name and the version of a source of the form name@version or
// name@version:part; the version of any other is "".
func cutVersion(source string) (name, version string) {
	at := strings.LastIndexByte(source, '@')
	if at < 0 {
		return source, ""
	}
	version, _, _ = strings.Cut(source[at+1:], ":")
	return source[:at], version
}

// setOrigin remembers who computed the latest value of a key.
func (s *state) setOrigin(key uint32, from Origin) {
	m := s.extras()
	if from.IsZero() {
		delete(m.origins, key)
		return
	}
	if m.origins == nil {
		m.origins = make(map[uint32]Origin)
	}
	m.origins[key] = from
}

// checkRoom counts exactly which keys the readings would add. It is the slow path, taken only near
// the limits.
func (s *state) checkRoom(readings []Reading, keys *keyTable, by string) error {
	fresh := make(map[string]bool) // key → whether it is new in the table as well
	unknown := 0
	for i := range readings {
		for _, sample := range readings[i].Values {
			if _, ok := fresh[sample.Key]; ok {
				continue
			}
			id, known := keys.find(sample.Key)
			if known {
				if _, ok := s.find(id); ok {
					continue
				}
			} else {
				unknown++
			}
			fresh[sample.Key] = !known
		}
	}
	if n := len(s.slots) + len(fresh); n > MaxEntityKeys {
		return fmt.Errorf("%w: the entity would have %d; at most %d are allowed", ErrTooManyKeys, n, MaxEntityKeys)
	}
	return keys.room(unknown, by)
}

// load fills the state from the store.
func (s *state) load(e *Stored, keys *keyTable) {
	*s = state{slots: make([]slot, 0, len(e.Latest)), seq: e.Seq, created: e.Created, revision: e.Revision, typ: e.Type, presence: e.Presence}
	for i := range e.Latest {
		l := &e.Latest[i]
		key := keys.id(l.Key, "")
		s.set(key, l.TS, l.Seq, l.Value)
		if !l.Origin.IsZero() {
			s.setOrigin(key, l.Origin)
		}
	}
	if len(e.Attributes)+len(e.Applied)+len(e.Commands) == 0 {
		return
	}
	m := s.extras()
	for i := range e.Commands {
		m.commands.add(&openCommand{Command: e.Commands[i]})
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		list := &m.sections[a.Section-1]
		*list = append(*list, Attribute{Path: keys.intern(a.Path, ""), TS: a.TS, Value: a.Value})
	}
	m.replace(m.sections)
	for _, o := range e.Applied {
		if m.applied == nil {
			m.applied = make(map[string]uint64)
		}
		m.applied[o.Source] = o.Seq
	}
}

// latest returns the value of a slot.
func (s *state) latest(i int, keys *keyTable) Latest {
	sl := &s.slots[i]
	l := Latest{Key: keys.name(sl.key), TS: sl.ts, Seq: sl.seq, Value: value.FromRaw(sl.kind, sl.bits, sl.text)}
	if s.more != nil {
		l.Origin = s.more.origins[sl.key]
	}
	return l
}

// size returns roughly how many bytes the state occupies.
func (s *state) size() int64 {
	n := int64(cap(s.slots))*int64(unsafe.Sizeof(slot{})) + int64(s.texts)
	if s.more == nil {
		return n
	}
	const pair = 64 // an entry of a map, with its share of the empty ones
	return n + int64(unsafe.Sizeof(extras{})) + pair*int64(len(s.more.applied)+len(s.more.origins)) + s.more.bytes + s.more.commands.size()
}

// replace puts edited sections in place.
func (m *extras) replace(next [len(sections)]section) {
	m.sections, m.bytes = next, 0
	for _, list := range next {
		m.bytes += int64(cap(list)) * int64(unsafe.Sizeof(Attribute{}))
		for i := range list {
			m.bytes += int64(len(list[i].Value.Text()))
		}
	}
}

func (s *state) updated() (ts int64) {
	for i := range s.slots {
		ts = max(ts, s.slots[i].ts)
	}
	return ts
}

// etag returns the version of everything but the telemetry. It contains the time of creation
// because the revisions of an entity start again when it is deleted and created again.
func etag(created int64, revision uint64) string {
	text := append(strconv.AppendInt(make([]byte, 0, 32), created, 36), '-')
	return string(strconv.AppendUint(text, revision, 36))
}

// snapshot returns the state for a reader, with the latest values ordered by key.
func (s *state) snapshot(id string, keys *keyTable) Snapshot {
	snap := Snapshot{ID: id, Type: s.typ, Created: s.created, Updated: s.updated(), ETag: etag(s.created, s.revision), Latest: make([]Latest, len(s.slots))}
	for i := range s.slots {
		snap.Latest[i] = s.latest(i, keys)
	}
	snap.Presence = s.presence
	slices.SortFunc(snap.Latest, func(a, b Latest) int { return strings.Compare(a.Key, b.Key) })
	if s.more == nil {
		return snap
	}
	for _, sec := range sections {
		for _, a := range s.section(sec) {
			snap.Attributes = append(snap.Attributes, StoredAttribute{sec, a})
		}
	}
	return snap
}
