package alarm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// replayPoints is how many points of the history a step of a replay goes through.
	replayPoints = 5000
	// replayPage is how many are read at once.
	replayPage = 1000
	// recordPage is how many alarms are read at once, and recordsHeld how many existing and
	// expected alarms a replay holds in memory before it compares them.
	recordPage  = 100
	recordsHeld = 400
	// replaysAtOnce is how many replays take turns: each has up to replayPage points of the history
	// in memory. A long one delays the others by its share of a step.
	replaysAtOnce = 8
)

// steps are the sizes of what the engine does at once.
type steps struct {
	points, page int           // see replayPoints and replayPage
	held         int           // see recordsHeld
	items        int           // see ledgerItems
	mark         int           // see markAlarms
	ahead        int64         // see MaxAhead, in milliseconds
	awaits       int           // see MaxAwaited
	fire         int           // see fireEntities
	apply        int           // see applyAtOnce
	grace        time.Duration // see lateGrace
}

func usualSteps() steps {
	return steps{replayPoints, replayPage, recordsHeld, ledgerItems, markAlarms, MaxAhead.Milliseconds(), MaxAwaited, fireEntities, applyAtOnce, lateGrace}
}

// replay goes through the history of the values that a rule reads of an entity, from a late reading
// on, and determines the alarms that there should be. It starts from the state of the machine just
// before, which follows from the alarms at that time and the readings of the preceding waiting
// time. It ends with the newest reading that the engine knows; or earlier, once newer readings have
// superseded everything that was late and the machine is in the state that the alarms say it was.
type replay struct {
	e       *engine
	st      *state
	span    span
	end     int64 // the time of the newest reading to be gone through
	upTo    int64 // the end of this round; the next round continues from there to end
	again   bool  // readings have come with a time that was already read
	lead    *lead // the place among the changes up to which the history that it reads is known to go
	needs   int64 // the time that the engine's clock must reach for the end, 0 for none
	frame   frame
	machine machine
	cursors []cursor
	stale   uint64 // the keys that may differ from what they were before

	records []*Alarm // in the order of Raised, not yet compared
	from    string   // where the next ones are read, "" at the end
	forced  []force
	made    []episode
	at      int64 // the time reached
}

// episode is an alarm that should exist.
type episode struct {
	since, raised, cleared int64
	open                   bool
	cause                  Cause
	values                 []Value
}

// force is the end of an alarm that was not caused by a reading.
type force struct {
	at    int64
	cause Cause // ByOperator or ByScope
}

// cursor reads the history of one key.
type cursor struct {
	slot   int
	key    string
	points []entity.Point
	latest slotValue // what the entity has: retention may have left nothing of it in the history
	next   string    // the cursor of the next page
	more   bool
}

// lateReading records a late reading for a rule, and returns false if it is too old.
func (e *engine) lateReading(s *subject, r *rule, ts int64, slots []int) bool {
	if ts < e.now()-e.lateness || ts < r.Effective {
		e.count.ignored.Add(1)
		return false
	}
	e.count.late.Add(1)
	st := s.state(r)
	if st == nil {
		if st = e.begin(s, r); st == nil {
			return true
		}
	}
	x := span{From: ts, To: ts}
	for i, k := range r.keys {
		if slices.Contains(slots, k) {
			x.Keys |= 1 << i
		}
	}
	e.joinLate(st, x)
	return true
}

// joinLate adds a span to the late readings of a state. A replay under way includes it if it has
// not passed it yet, so that the replay comes to an end.
func (e *engine) joinLate(st *state, x span) {
	if st.late == nil {
		all := x
		st.late = &all
	} else {
		st.late.join(x)
	}
	if p := st.run; p != nil && !p.takes(x) {
		if st.next == nil {
			st.next = &x
		} else {
			st.next.join(x)
		}
	}
	e.enqueue(st)
	e.touch(st)
}

// enqueue schedules the replay of a state.
func (e *engine) enqueue(st *state) {
	if !st.queued {
		st.queued = true
		e.late = append(e.late, st)
	}
}

// takes adds a span, unless it begins before the replay or before what the replay has passed; then
// it returns false.
func (p *replay) takes(x span) bool {
	if x.From < p.span.From || x.From <= p.at {
		return false
	}
	p.span.join(x)
	p.stale |= x.Keys
	p.again = p.again || x.From <= p.upTo
	p.end = max(p.end, x.To)
	p.needs = 0
	return true
}

// waits reports whether the replay can only go on when the engine's clock does.
func (p *replay) waits() bool { return p != nil && p.needs > p.e.clock() }

// catchUp continues the replays in turn, for as many points as one step may take.
func (e *engine) catchUp(ctx context.Context) error {
	left, share := e.steps.points, max(1, e.steps.points/replaysAtOnce)
	e.lead = nil
	for moved := true; moved && left > 0 && len(e.ledger.items) < e.steps.items && e.ledger.bytes < ledgerBytes; {
		moved = false
		for len(e.running) < replaysAtOnce && len(e.late) > 0 {
			e.running = append(e.running, e.late[0])
			e.late[0] = nil
			e.late = e.late[1:]
		}
		for range len(e.running) {
			if left <= 0 || e.ledger.bytes >= ledgerBytes {
				break
			}
			st := e.running[0]
			e.running = append(e.running[:0], e.running[1:]...)
			n, done, err := e.replaySome(ctx, st, min(left, share))
			if err != nil {
				return err
			}
			left -= n + 1
			if !done {
				e.running = append(e.running, st)
			}
			moved = moved || !st.run.waits()
		}
	}
	if len(e.late) == 0 {
		e.late = nil
	}
	return nil
}

// replaySome continues the replay of a state, and reports how many points it took and whether the
// state is finished.
func (e *engine) replaySome(ctx context.Context, st *state, most int) (n int, done bool, err error) {
	if st.late == nil || st.ending || st.s.state(st.rule) != st {
		st.queued = false
		return 0, true, nil
	}
	if st.run.waits() {
		return 0, false, nil
	}
	if st.run == nil {
		err = e.startReplay(ctx, st)
	}
	if st.run != nil && err == nil {
		n, done, err = st.run.step(ctx, most)
	}
	if errors.Is(err, entity.ErrNotFound) { // the entity has gone: to know it again finds that out
		st.run, st.next, st.s.loaded = nil, nil, false
		_, _, err = e.know(ctx, st.s.id)
		return n, false, err
	}
	if err != nil || st.run != nil && !done {
		return n, false, err
	}
	if st.run == nil { // the entity has gone
		st.next = nil
	}
	if st.run != nil {
		st.s.took(st.run)
	}
	st.late, st.run, st.next, st.queued = st.next, nil, nil, false
	if st.late != nil {
		e.enqueue(st)
	}
	e.touch(st)
	return n, true, nil
}

// lastAlarm returns the last alarm of a rule and an entity that was raised before a time, of those
// that were not withdrawn and are of its conditions; nil for none.
func (e *engine) lastAlarm(ctx context.Context, id string, r *rule, before int64) (*Alarm, error) {
	pair := part(id, r.Name)
	for to := timeKey(id, r.Name, before, ""); ; {
		list, err := e.ledger.alarmTimes(ctx, pair, pair, to, 1, true)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		a, err := e.ledger.alarm(ctx, string(list[0].Body))
		if errors.Is(err, ErrNotFound) {
			e.unreadable(ctx, err)
			return nil, nil
		}
		if err != nil || a.Cause != ByRule { // that was of other conditions
			return a, err
		}
		to = list[0].Key
	}
}

// startReplay starts the replay of a state's late readings.
func (e *engine) startReplay(ctx context.Context, st *state) error {
	s, _, err := e.know(ctx, st.s.id)
	if err != nil || s == nil {
		return err
	}
	l, err := e.leadNow(ctx)
	if err != nil {
		return err
	}
	r := st.rule
	p := &replay{e: e, st: st, lead: l, span: *st.late, frame: s.frame, end: s.newest, stale: st.late.Keys}
	p.frame.values = slices.Clone(s.values)
	if first := &s.first; first.waits() && p.span.From >= first.from { // those that wait are taken in as well
		p.span.To = max(p.span.To, first.to)
	}
	if st.pending { // what is pending may have been due before the late reading
		p.span.From = min(p.span.From, st.since)
	}
	from := p.span.From
	last, err := e.lastAlarm(ctx, s.id, r, from)
	if err != nil {
		return err
	}
	if last != nil {
		if p.machine.at = last.Raised; last.Open() || last.Cleared >= from {
			p.machine.raised = true
			p.records = append(p.records, last)
			p.made = append(p.made, episode{since: last.Since, raised: last.Raised, open: true, values: last.Values})
			p.noteForced(last)
		} else {
			p.machine.at = last.Cleared
		}
	}
	p.from = timeKey(s.id, r.Name, from, "")
	// What holds just before the late reading, and since when.
	begin := max(p.machine.at, from-p.machine.wait(r), entity.MinTS)
	before := min(begin+1, from)
	p.at, p.upTo = before-1, p.end
	for _, slot := range r.keys {
		c := cursor{slot: slot, key: e.slots.paths[slot].name, more: true}
		points, err := p.history(ctx, entity.HistoryQuery{Key: c.key, To: before, Limit: 1, Descending: true})
		if err != nil {
			return err
		}
		if i, ok := p.frame.find(slot); ok {
			c.latest = p.frame.values[i]
			p.frame.values = slices.Delete(p.frame.values, i, i+1)
		}
		switch has := !c.latest.v.IsZero() && c.latest.ts < before; {
		case len(points) > 0 && (!has || points[0].TS >= c.latest.ts):
			p.frame.put(slot, points[0].TS, points[0].Value)
		case has:
			p.frame.put(slot, c.latest.ts, c.latest.v)
		}
		p.cursors = append(p.cursors, c)
	}
	if _, known := p.frame.newest(r); known && begin < from { // not before the first reading
		p.observe(begin)
	}
	if err := p.readAgain(ctx); err != nil {
		return err
	}
	st.run = p
	return nil
}

// readAgain reads the history again from the time reached.
func (p *replay) readAgain(ctx context.Context) error {
	p.again = false
	for i := range p.cursors {
		c := &p.cursors[i]
		c.points, c.next, c.more = nil, "", true
		if err := p.fill(ctx, c, p.at+1); err != nil {
			return err
		}
	}
	return nil
}

// history reads points, none before the epoch.
func (p *replay) history(ctx context.Context, q entity.HistoryQuery) ([]entity.Point, error) {
	if q.To <= q.From {
		return nil, nil
	}
	q.ID = p.st.s.id
	points, _, err := p.e.rt.History(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("alarms of entity %q: %w", q.ID, err)
	}
	return points, nil
}

// fill reads the next points of a key.
func (p *replay) fill(ctx context.Context, c *cursor, from int64) error {
	if len(c.points) > 0 || !c.more || from > p.upTo && c.next == "" {
		return nil
	}
	q := entity.HistoryQuery{ID: p.st.s.id, Key: c.key, From: from, Limit: max(1, p.e.steps.page/len(p.cursors)), Cursor: c.next}
	if c.next != "" {
		q.From = 0
	}
	points, next, err := p.e.rt.History(ctx, q)
	if err != nil {
		return fmt.Errorf("alarms of entity %q: %w", q.ID, err)
	}
	c.points, c.next, c.more = points, next, next != ""
	if x := &c.latest; !c.more && !x.v.IsZero() && x.ts >= from && (len(points) == 0 || points[len(points)-1].TS < x.ts) {
		c.points = append(c.points, entity.Point{TS: x.ts, Value: x.v})
	}
	return nil
}

// step advances by at most most points, and reports by how many and whether the replay is done.
func (p *replay) step(ctx context.Context, most int) (n int, done bool, err error) {
	if p.again {
		if err := p.readAgain(ctx); err != nil {
			return n, false, err
		}
	}
	for {
		at, ok := p.nextPlace()
		if n >= most && (!ok || at.TS != p.at) { // what is of one time is never split
			return n, false, nil
		}
		if !ok && p.end > p.upTo { // what has come since
			p.upTo = p.end
			if err := p.readAgain(ctx); err != nil {
				return n, false, err
			}
			continue
		}
		if !ok {
			done, err = p.finish(ctx, false)
			return n, done, err
		}
		if err := p.repeat(ctx, at.TS); err != nil {
			return n, false, err
		}
		p.at = at.TS
		p.advance(at.TS)
		for i := range p.cursors {
			c := &p.cursors[i]
			if len(c.points) == 0 || c.points[0].Place() != at {
				continue
			}
			p.frame.put(c.slot, at.TS, c.points[0].Value)
			if at.TS > p.span.To {
				p.stale &^= 1 << i
			}
			c.points = c.points[1:]
			n++
			if err := p.fill(ctx, c, at.TS+1); err != nil {
				return n, false, err
			}
		}
		p.observe(at.TS)
		if len(p.made)+len(p.records) > p.e.steps.held {
			if err := p.compareSome(ctx); err != nil {
				return n, false, err
			}
		}
		if settled, err := p.settled(ctx, at); err != nil || settled {
			return n, settled, err
		}
	}
}

// nextPlace returns the place of the next points, false where there are none.
func (p *replay) nextPlace() (at entity.Place, ok bool) {
	for i := range p.cursors {
		if points := p.cursors[i].points; len(points) > 0 && points[0].TS <= p.upTo {
			if next := points[0].Place(); !ok || next.Compare(at) < 0 {
				at, ok = next, true
			}
		}
	}
	return at, ok
}

// observe evaluates the conditions at a time.
func (p *replay) observe(ts int64) {
	r := p.st.rule
	if t, ok := p.machine.observe(r, ts, p.machine.holds(r, &p.frame)); ok {
		p.turn(t)
	}
}

// turn records a transition.
func (p *replay) turn(t turn) {
	if t.raised {
		p.made = append(p.made, episode{since: t.since, raised: t.at, open: true, values: p.frame.sample(p.st.rule, p.e.slots)})
		return
	}
	p.close(t.at, ByCondition)
}

func (p *replay) close(at int64, cause Cause) {
	last := &p.made[len(p.made)-1]
	last.open, last.cleared, last.cause = false, max(at, last.raised), cause
}

// settled ends the replay at a place from which on nothing differs from what the alarms already
// say, or compares what it has up to there.
func (p *replay) settled(ctx context.Context, at entity.Place) (bool, error) {
	if p.upTo < p.end || p.machine.pending || p.stale != 0 || p.span.All || at.TS <= p.span.To {
		return false, nil
	}
	if next, ok := p.nextPlace(); ok && next.TS == at.TS {
		return false, nil
	}
	if err := p.readRecords(ctx, at.TS); err != nil {
		return false, err
	}
	raised := false
	for _, a := range p.records {
		if a.Raised <= at.TS && (a.Open() || a.Cleared > at.TS) {
			raised = true
		}
	}
	if raised != p.machine.raised {
		return false, nil
	}
	return p.finish(ctx, true)
}

// noteForced notes an end that is to be repeated.
func (p *replay) noteForced(a *Alarm) {
	if a.Cause == ByOperator || a.Cause == ByScope {
		p.forced = append(p.forced, force{a.Cleared, a.Cause})
	}
}

// repeat ends alarms as they were ended before a time; if by an operator, only if the condition
// does not hold.
func (p *replay) repeat(ctx context.Context, ts int64) error {
	if err := p.readRecords(ctx, ts); err != nil {
		return err
	}
	for len(p.forced) > 0 && p.forced[0].at <= ts {
		x := p.forced[0]
		p.forced = p.forced[1:]
		p.advance(x.at)
		if p.machine.raised && x.at >= p.machine.at && (x.cause == ByScope || !p.st.rule.raise.Match(&p.frame, &p.frame.env)) {
			p.close(x.at, x.cause)
			p.machine = machine{at: x.at}
		}
	}
	return nil
}

// advance goes on to a time.
func (p *replay) advance(ts int64) {
	if t, ok := p.machine.advance(p.st.rule, ts); ok {
		p.turn(t)
	}
}

// readRecords reads the alarms that were raised up to a time, as far as they are not read.
func (p *replay) readRecords(ctx context.Context, ts int64) error {
	for p.from != "" && (len(p.records) == 0 || p.records[len(p.records)-1].Raised <= ts) {
		pair := part(p.st.s.id, p.st.rule.Name)
		list, err := p.e.ledger.alarmTimes(ctx, pair, p.from, after(pair), recordPage, false)
		if err != nil {
			return err
		}
		for i := range list {
			a, err := p.e.ledger.alarm(ctx, string(list[i].Body))
			if errors.Is(err, ErrNotFound) {
				p.e.unreadable(ctx, err)
				continue
			}
			if err != nil {
				return err
			}
			if a.Cause == ByRule { // it was of other conditions
				continue
			}
			p.records = append(p.records, a)
			p.noteForced(a)
		}
		if p.from = ""; len(list) == recordPage {
			p.from = list[len(list)-1].Key + "\x00"
		}
	}
	return nil
}

// finish compares the alarms that should exist with those that do, and writes the difference. It
// reports false if it has to wait for the engine's clock: changes that are not yet applied may
// decide whether a pending condition was met.
func (p *replay) finish(ctx context.Context, early bool) (done bool, err error) {
	e, st := p.e, p.st
	if !early {
		now := e.now()
		if p.machine.pending {
			if due := p.machine.since + p.machine.wait(st.rule); due <= now && due > max(e.clock(), p.end) {
				p.needs = due
				return false, nil
			}
		}
		if err := p.repeat(ctx, max(now, p.end)); err != nil {
			return false, err
		}
		p.advance(max(e.clock(), p.end))
		if err := p.readRecords(ctx, entity.MaxTS); err != nil {
			return false, err
		}
	}
	e.count.replays.Add(1)
	open, err := p.compare(ctx, early)
	if err != nil || early {
		return err == nil, err
	}
	st.machine, st.alarm = p.machine, open
	st.s.redone = max(st.s.redone, p.end)
	st.s.turned = max(st.s.turned, p.machine.at)
	if p.machine.pending {
		st.s.turned = max(st.s.turned, p.machine.since)
	}
	return true, nil
}

// compare goes through the episodes and the alarms of the replayed time side by side: an episode
// and an alarm that overlap are the same alarm. The alarm that is open at the end keeps its
// identity; compare returns its ID.
func (p *replay) compare(ctx context.Context, early bool) (open string, err error) {
	i, end := 0, len(p.records)
	for early && end > 0 && p.records[end-1].Raised > p.at {
		end--
	}
	closed := p.made
	var last *episode
	if n := len(p.made); n > 0 && p.made[n-1].open {
		closed, last = p.made[:n-1], &p.made[n-1]
	}
	match := end // those that closed episodes may be
	if last != nil && end > 0 && (early || p.records[end-1].Open()) {
		match--
	}
	for _, x := range closed {
		from := i
		for i < match && !p.records[i].Open() && p.records[i].Cleared < x.raised {
			i++
		}
		if err := p.withdraw(ctx, p.records[from:i]); err != nil {
			return "", err
		}
		if i < match && p.records[i].Raised <= x.cleared {
			err = p.amend(ctx, p.records[i], x)
			i++
		} else {
			_, err = p.insert(x)
		}
		if err != nil {
			return "", err
		}
	}
	if last == nil {
		return "", p.withdraw(ctx, p.records[i:end])
	}
	a := (*Alarm)(nil)
	switch {
	case match < end:
		a = p.records[match]
	case i < end && (p.records[i].Open() || p.records[i].Cleared >= last.raised): // it has not cleared after all
		a, match = p.records[i], i
	}
	for n, x := range p.records[i:end] {
		if i+n != match || a == nil {
			if err := p.withdraw(ctx, []*Alarm{x}); err != nil {
				return "", err
			}
		}
	}
	if a == nil {
		a, err = p.insert(*last)
		return a.ID, err
	}
	if early { // what comes of it later is as it was
		last.open, last.cleared, last.cause = a.Open(), a.Cleared, a.Cause
	}
	return a.ID, p.amend(ctx, a, *last)
}

// compareSome is compare for the part that nothing later in the replay can change: the alarms that
// had cleared by the time reached, and the corresponding episodes. After a crash the whole replay
// is repeated, and finds what it has written.
func (p *replay) compareSome(ctx context.Context) error {
	over := slices.IndexFunc(p.records, func(a *Alarm) bool { return a.Open() || a.Cleared >= p.at || a.Raised > p.at })
	if over < 0 {
		over = len(p.records)
	}
	closed := len(p.made)
	if closed > 0 && p.made[closed-1].open {
		closed--
	}
	done, i := 0, 0
	for ; done < closed; done++ {
		x := p.made[done]
		from := i
		for i < over && p.records[i].Cleared < x.raised {
			i++
		}
		if err := p.withdraw(ctx, p.records[from:i]); err != nil {
			return err
		}
		var err error
		switch {
		case i < over && p.records[i].Raised <= x.cleared:
			err = p.amend(ctx, p.records[i], x)
			i++
		case over < len(p.records) && p.records[over].Raised <= x.cleared:
			// What is not over yet may be one that comes later. Where there are many it is this one:
			// what is written must not overlap, as the replay may begin anew.
			if closed-done < p.e.steps.held/2 {
				p.keepFrom(done, i)
				return nil
			}
			// Now no alarm says how it was from here on, so that the replay has to go to its end.
			p.span.All, p.st.late.All = true, true
			p.e.touch(p.st)
			err = p.amend(ctx, p.records[over], x)
			i++
			over++
		default:
			_, err = p.insert(x)
		}
		if err != nil {
			return err
		}
	}
	if closed < len(p.made) { // one of those that reach into it may be the one that is not closed
		from := i
		for i < over && p.records[i].Cleared < p.made[closed].raised {
			i++
		}
		if err := p.withdraw(ctx, p.records[from:i]); err != nil {
			return err
		}
		if last := i + 1; last < over-1 {
			if err := p.withdraw(ctx, p.records[last:over-1]); err != nil {
				return err
			}
			p.records = slices.Delete(p.records, last, over-1)
		}
		p.keepFrom(done, i)
		return nil
	}
	if err := p.withdraw(ctx, p.records[i:over]); err != nil {
		return err
	}
	p.keepFrom(done, over)
	return nil
}

// keepFrom forgets the first episodes and records.
func (p *replay) keepFrom(episode, record int) {
	p.made, p.records = slices.Clone(p.made[episode:]), slices.Clone(p.records[record:])
}

// current returns an alarm as it is now, since it may have been acknowledged or shelved after it
// was read. It returns nil if the alarm is no longer kept.
func (p *replay) current(ctx context.Context, a *Alarm) (*Alarm, error) {
	now, err := p.e.ledger.alarm(ctx, a.ID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return now, err
}

// withdraw ends alarms that should not have been.
func (p *replay) withdraw(ctx context.Context, list []*Alarm) error {
	for _, old := range list {
		a, err := p.current(ctx, old)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		was := a.prior()
		if a.Cleared == 0 {
			a.Cleared = a.Raised
		}
		a.Cause, a.Ended = ByLate, p.e.now()
		if err := p.e.write(a, was, Transition{Kind: Withdrawn, TS: a.Raised}); err != nil {
			return err
		}
	}
	return nil
}

// insert adds an alarm that should have been.
func (p *replay) insert(x episode) (*Alarm, error) {
	e := p.e
	a := &Alarm{Since: x.since, Raised: x.raised, Values: x.values}
	e.newAlarm(p.st, a)
	if !x.open { // it never was the open one
		a.Cleared, a.Ended, a.Cause = x.cleared, e.now(), x.cause
	}
	if err := e.write(a, nil, Transition{Kind: Raised, TS: a.Raised}); err != nil || x.open {
		return a, err
	}
	return a, e.write(a, a.prior(), Transition{Kind: Cleared, TS: a.Cleared})
}

// amend changes an alarm to what it should have been.
func (p *replay) amend(ctx context.Context, a *Alarm, x episode) error {
	a, err := p.current(ctx, a)
	if err != nil || a == nil {
		return err
	}
	if a.Since == x.since && a.Raised == x.raised && a.Cleared == x.cleared && a.Open() == x.open && slices.EqualFunc(a.Values, x.values, Value.same) {
		return nil
	}
	t, was := Transition{Kind: Amended, TS: x.raised}, a.prior()
	switch {
	case a.Open() && !x.open:
		t.Kind, t.TS = Cleared, x.cleared
		a.Ended = p.e.now()
	case !a.Open() && x.open:
		t.Kind = Reopened
		a.Ended = 0
	}
	a.Since, a.Raised, a.Cleared, a.Values = x.since, x.raised, x.cleared, x.values
	if a.Cause = x.cause; x.open {
		a.Cause = ""
	}
	return p.e.write(a, was, t)
}
