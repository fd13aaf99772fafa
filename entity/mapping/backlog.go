package mapping

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// A slice of recomputation has at most sliceMost evaluations, looks for the end of the effect
	// of at most sliceEnds late readings, and ends after sliceTime. Then the service handles the
	// changes that have come meanwhile. So recomputing one mapping delays the others by no more
	// than a slice, and the reads before its first step.
	sliceMost = 256
	sliceEnds = 64
	sliceTime = 20 * time.Millisecond
	// maxStretches bounds the stretches of late readings of a field that are remembered separately,
	// and maxAllStretches those of all fields, beyond one for each field. Beyond that, neighbors
	// are merged, and what is between them is recomputed as well.
	maxStretches    = 256
	maxAllStretches = 8192
	// maxPiecesBytes bounds the backlog that is stored field by field. Beyond that it is stored by
	// mapping.
	maxPiecesBytes = entity.MaxDocBytes / 2
	// sliceFlights is how many batches may be in flight when a slice begins.
	sliceFlights = maxFlights / 4
	// maxPostponed is how often a slice lets others go first while something is in flight to its
	// target. After that, all wait for it.
	maxPostponed = 8
)

// backlog is what has to be recomputed, in the order of its turns.
type backlog struct {
	rests  []*rest
	byKey  map[restKey]*rest // except those because of missed changes
	number uint64            // of the newest stretch
	all    int               // stretches
}

// restKey names a field of an installed mapping.
type restKey struct {
	Mapping string `json:"mapping"`
	Version int64  `json:"version"`
	Field   int    `json:"field"`
	// Replayed says that the late readings were there when the mapping was loaded.
	Replayed bool `json:"replayed,omitempty"`
}

// rest is what has to be recomputed of a field.
type rest struct {
	restKey
	missed    bool     // because of missed changes, not of late readings
	at        interval // the interval under way, empty if there is none
	number    uint64   // the least of the stretches in it
	depth     int      // the greatest of them
	stretches []stretch
	postponed int // how often the slice at hand was
}

// stretch is a range of time, both ends included, with late readings of some sources whose effect
// has to be determined.
type stretch struct {
	From    int64  `json:"from"`
	Last    int64  `json:"last"`
	Sources uint64 `json:"sources"`         // a bit for each
	Depth   int    `json:"depth,omitempty"` // the greatest of the changes
	number  uint64
}

// piece is a part of the backlog in the document of the place.
type piece struct {
	restKey
	All       bool      `json:"all,omitempty"` // fields of the mapping
	From      int64     `json:"from,omitempty"`
	To        int64     `json:"to,omitempty"`
	Depth     int       `json:"depth,omitempty"` // of that span of time
	Stretches []stretch `json:"stretches,omitempty"`
}

// of returns the rest of a field.
func (b *backlog) of(key restKey) *rest {
	r := b.byKey[key]
	if r == nil {
		if b.byKey == nil {
			b.byKey = make(map[restKey]*rest)
		}
		r = &rest{restKey: key}
		b.byKey[key] = r
		b.rests = append(b.rests, r)
	}
	return r
}

// late adds late readings.
func (b *backlog) late(spans []Span) {
	for _, s := range spans {
		sources := uint64(0)
		for _, n := range s.sources {
			sources |= 1 << n
		}
		m := s.f.m
		r := b.of(restKey{m.Name, m.Version, s.f.index, m.replaying && s.f.parametric()})
		b.add(r, stretch{From: s.ts, Last: s.ts, Sources: sources, Depth: s.depth})
	}
}

// add adds a stretch to those of a field. If the stretch has a number, it keeps it.
func (b *backlog) add(r *rest, s stretch) {
	if s.number == 0 {
		b.number++
		s.number = b.number
	}
	i, found := slices.BinarySearchFunc(r.stretches, s.From, func(o stretch, from int64) int { return cmp.Compare(o.From, from) })
	if found {
		r.stretches[i] = r.stretches[i].and(s)
		return
	}
	r.stretches = slices.Insert(r.stretches, i, s)
	if b.all++; len(r.stretches) <= maxStretches && b.all <= maxAllStretches || len(r.stretches) == 1 {
		return
	}
	least, between := 1, int64(math.MaxInt64)
	for i := 1; i < len(r.stretches); i++ {
		if d := r.stretches[i].From - r.stretches[i-1].Last; d < between {
			least, between = i, d
		}
	}
	r.stretches[least-1] = r.stretches[least-1].and(r.stretches[least])
	r.stretches = slices.Delete(r.stretches, least, least+1)
	b.all--
}

// and returns a stretch that covers both.
func (s stretch) and(o stretch) stretch {
	return stretch{min(s.From, o.From), max(s.Last, o.Last), s.Sources | o.Sources, max(s.Depth, o.Depth), min(s.number, o.number)}
}

// reached reports whether everything added up to a number is done.
func (b *backlog) reached(number uint64) bool {
	return !slices.ContainsFunc(b.rests, func(r *rest) bool {
		return r.at.from < r.at.to && r.number <= number ||
			slices.ContainsFunc(r.stretches, func(s stretch) bool { return s.number <= number })
	})
}

// pieces returns the backlog as it is stored, without what missed changes have left, since the
// place records that.
func (b *backlog) pieces() (list []piece) {
	for _, r := range b.rests {
		if !r.missed {
			list = append(list, piece{restKey: r.restKey, From: r.at.from, To: r.at.to, Depth: r.depth, Stretches: slices.Clone(r.stretches)})
		}
	}
	return list
}

// tooLong reports whether pieces may take more than maxPiecesBytes.
func tooLong(pieces []piece) bool {
	const most = 128 // of numbers and names of members, of a piece and of a stretch
	bytes := 0
	for i := range pieces {
		bytes += len(pieces[i].Mapping) + most*(1+len(pieces[i].Stretches))
	}
	return bytes > maxPiecesBytes
}

// fold returns pieces of whole mappings: all of their fields from the first time on.
func fold(pieces []piece) (list []piece) {
	at := make(map[restKey]int)
	for i := range pieces {
		p := &pieces[i]
		from, deep := end, p.Depth
		if p.From < p.To {
			from = p.From
		}
		for _, s := range p.Stretches {
			from, deep = min(from, s.From), max(deep, s.Depth)
		}
		key := restKey{Mapping: p.Mapping, Version: p.Version, Replayed: p.Replayed}
		j, ok := at[key]
		if !ok {
			j = len(list)
			at[key] = j
			list = append(list, piece{restKey: key, All: true, From: from, To: end})
		}
		list[j].From, list[j].Depth = min(list[j].From, from), max(list[j].Depth, deep)
	}
	return list
}

// unfold restores the stored pieces of whole mappings, for the mappings that are in force.
func (b *backlog) unfold(pieces []piece, mappings map[string]*mapping) {
	for i := range pieces {
		p := &pieces[i]
		m := mappings[p.Mapping]
		if !p.All || m == nil || p.From >= p.To {
			continue
		}
		for j := range m.fields {
			key := p.restKey
			key.Field = j
			b.add(b.of(key), stretch{From: p.From, Last: p.To - 1, Depth: p.Depth})
		}
	}
}

// restore restores the stored pieces, except those of whole mappings.
func (b *backlog) restore(pieces []piece) {
	for i := range pieces {
		p := &pieces[i]
		if p.All {
			continue
		}
		r := b.of(p.restKey)
		if p.From < p.To {
			// Of one field there may be several that were on their way: whole stretches of
			// no source end where they end.
			b.add(r, stretch{From: p.From, Last: p.To - 1, Depth: p.Depth})
		}
		for _, s := range p.Stretches {
			b.add(r, s)
		}
	}
}

// missed adds the whole past of a field, because changes were missed.
func (b *backlog) missed(key restKey) {
	b.rests = append(b.rests, &rest{restKey: key, missed: true, at: interval{0, end}, number: math.MaxUint64})
}

// hasMissed reports whether there is something of changes that were missed.
func (b *backlog) hasMissed() bool {
	return slices.ContainsFunc(b.rests, func(r *rest) bool { return r.missed })
}

// turn moves the first rest behind the others, or removes it if it is done.
func (b *backlog) turn() {
	r := b.rests[0]
	b.rests = b.rests[1:]
	switch {
	case r.at.from < r.at.to || len(r.stretches) > 0:
		b.rests = append(b.rests, r)
	case !r.missed:
		delete(b.byKey, r.restKey)
	}
}

// drop removes the first rest, whose mapping no longer exists.
func (b *backlog) drop() {
	r := b.rests[0]
	b.all -= len(r.stretches)
	r.at, r.stretches = interval{}, nil
	b.turn()
}

// next makes an interval from the next late readings of a field, and those that follow within the
// range of their effect. It goes through them in the order of time, and then starts over, so that
// none waits forever.
func (b *backlog) next(ctx context.Context, rd Reader, r *rest, f *field, some *portion) error {
	i, _ := slices.BinarySearchFunc(r.stretches, r.at.to, func(o stretch, from int64) int { return cmp.Compare(o.From, from) })
	if i == len(r.stretches) {
		i = 0
	}
	first := r.stretches[i]
	at, number, deep := interval{first.From, first.From}, first.number, 0
	walks := make(map[int]*walk)
	n := 0
	some.start()
	for _, s := range r.stretches[i:] {
		if some.done() || n > 0 && s.From > at.to {
			break
		}
		to := s.Last + 1
		for left := s.Sources; left != 0; left &= left - 1 {
			source := bits.TrailingZeros64(left)
			src := &f.spec.Sources[source]
			if walks[source] == nil {
				walks[source] = &walk{r: rd, id: src.Entity, key: src.Key}
			}
			until, err := walks[source].effectEnd(ctx, src, s.Last)
			if err != nil {
				return err
			}
			to = max(to, until)
		}
		at.to, number, deep = max(at.to, to), min(number, s.number), max(deep, s.Depth)
		n++
	}
	r.stretches = slices.Delete(r.stretches, i, i+n)
	r.at, r.number, r.depth = at, number, deep
	b.all -= n
	return nil
}

// catchUp recomputes a part of the backlog.
func (f *follower) catchUp() error {
	r := f.backlog.rests[0]
	m := f.engine.mappings[r.Mapping]
	if m == nil || m.Version != r.Version || r.Field >= len(m.fields) {
		f.backlog.drop()
		return f.drained()
	}
	if r.at.from >= r.at.to {
		if err := f.backlog.next(f.s.ctx, f.s.reader, r, m.fields[r.Field], f.s.portion(sliceEnds)); err != nil {
			return err
		}
	}
	next, _, written, err := f.slice(f.s.ctx, r, r.at, r.postponed < maxPostponed)
	if err != nil {
		return err
	}
	if !written {
		r.postponed++
		f.blocked = true
	} else {
		r.postponed = 0
		r.at.from = next
	}
	f.backlog.turn()
	return f.drained()
}

// slice recomputes the beginning of an interval of a field and writes the values that differ from
// the stored ones. It returns where the rest begins and how many values it wrote. While readings
// are in flight to the target with which it would have to compare, it waits for them or, if polite,
// writes nothing and returns false. Values newer than everything that has been applied are left to
// the changes that will bring them.
func (f *follower) slice(ctx context.Context, r *rest, within interval, polite bool) (next int64, count int, written bool, err error) {
	m := f.engine.mappings[r.Mapping]
	target := m.fields[r.Field]
	out := Output{Mapping: m.Name, Version: m.Version, Into: m.Statement.Into, Seq: f.seq, Depth: max(r.depth, 1), Again: true}
	there := &walk{r: f.s.reader, id: m.Statement.Into, key: target.spec.As}
	applied := target.applied(within)
	next, err = f.engine.recomputeSome(ctx, f.s.reader, target, applied, f.s.portion(sliceMost), func(v Value) error {
		if keeps, err := target.keeps(ctx, r.Replayed, there, v.TS); keeps || err != nil {
			return err
		}
		out.Readings = append(out.Readings, entity.Reading{TS: v.TS, Values: []entity.Sample{{Key: v.Key, Value: v.Value}}})
		return nil
	})
	if err != nil {
		return within.from, 0, false, err
	}
	if polite && f.inFlightTo(out.Into).overlaps(out.span()) {
		return within.from, 0, false, nil
	}
	if next >= applied.to {
		next = within.to
	}
	part := &piece{restKey: r.restKey, From: within.from, To: next, Depth: r.depth}
	if r.missed {
		part = nil
	}
	err = f.flight(part, func(fl *flight) error {
		before := f.s.count.values.Load()
		err := f.write(ctx, fl, []Output{out}, true)
		count = int(f.s.count.values.Load() - before)
		return err
	})
	return next, count, true, err
}

// applied returns the part of an interval that the changes that were applied have reached. A field
// over a group only has the value of what was applied.
func (f *field) applied(within interval) interval {
	switch {
	case f.fanIn:
	case !f.any:
		within.to = within.from
	default:
		within.to = max(within.from, min(within.to, f.newest+1))
	}
	return within
}

// drained answers callers that wait for a finished part of the backlog.
func (f *follower) drained() error {
	if f.failed != nil {
		return f.failed
	}
	f.waitingRest = slices.DeleteFunc(f.waitingRest, func(w restWait) bool {
		if f.loads() || !f.backlog.reached(w.number) {
			return false
		}
		f.whenLanded(w.done...)
		return true
	})
	return f.land()
}

// restWait is a caller that waits for everything added to the backlog up to a number.
type restWait struct {
	number uint64
	done   []chan error
}

// whenDone sends a value when everything outstanding is durable: the present backlog of late
// readings, the values of mappings that have to be reloaded, and everything in flight.
func (f *follower) whenDone(done ...chan error) {
	if !f.loads() && f.backlog.reached(f.backlog.number) {
		f.whenLanded(done...)
		return
	}
	f.waitingRest = append(f.waitingRest, restWait{f.backlog.number, done})
}
