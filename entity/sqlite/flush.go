package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// The tail is moved into the tables in rounds, entity by entity in the order of the tables, and a
// round in slices: a transaction each, so short that a commit can wait for it, and which ends early
// when one does. A slice is not synced. If a loss of power undoes it, or the process ends between
// two slices, the change log has everything that came after the last round, and moving it again
// leads to the same state.
const (
	// flushBytes is the size and flushAfter the age at which the tail is moved, and flushEvery how
	// often these are checked. The longer the wait, the more rows of a page are written together,
	// and the more has to be moved again after a crash.
	flushBytes = 16 << 20
	flushAfter = 5 * time.Second
	flushEvery = 100 * time.Millisecond

	// maxTail is the size from which on commits move rows themselves before they add more.
	maxTail = 2 * flushBytes

	// sliceBytes bounds, roughly, how much of the tail a slice moves, some 600 rows. A slice
	// consists of steps of stepBytes, 64 rows, which take a fifth of a millisecond, and ends early
	// after a step if somebody waits. While the tail is larger than flushBytes, steps have
	// largeStep rows and the slice ends after sliceTime.
	sliceBytes = 60_000
	stepBytes  = 64 * tailRowBytes
	largeStep  = 4 * stepBytes

	// leastPause is the pause after a slice, in times of the slice, when the tail has nearly
	// reached maxTail. Normally the pause is as long as the slice.
	leastPause = 0.125

	// packFrom is the number of rows of a series from which on they are packed into a block at once
	// (seal.go), in steps of at most packBytes. Packing a row takes a tenth of the time of
	// inserting it.
	packFrom  = 256
	packBytes = 1024 * tailRowBytes
	packSpeed = 8

	// sortFrom is the number of rows of an entity from which on they are sorted for a round.
	// Fewer are in one or two steps, and sorted there.
	sortFrom = 128
)

// flushes moves the tail until stop is closed.
func (s *Store) flushes(stop <-chan struct{}) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if s.due() {
			// If an error matters, it will show in the next commit; until then the tail only grows.
			_ = s.flush(stop)
		}
	}
}

// due reports whether the tail has to be moved.
func (s *Store) due() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	t := s.tail
	return t.bytes >= flushBytes || 4*t.logged > s.opts.ChangeLogBytes || t.flushed < s.Info().LastChange && time.Since(t.since) >= flushAfter
}

// flush moves the present contents of the tail, slice by slice, with commits in between, until stop
// is closed.
func (s *Store) flush(stop <-chan struct{}) error {
	target := s.Info().LastChange
	_, err := s.between(stop, func() (bool, time.Duration, error) { return s.flushNext(target) })
	return err
}

// settle is flush if the log has values from before a time that may not be in the
// tables.
func (s *Store) settle(before int64) error {
	s.writing.Lock()
	settled := before <= s.tail.oldest
	s.writing.Unlock()
	if settled {
		return nil
	}
	return s.flush(nil)
}

// flushNext moves a slice unless the changes up to target are in the tables, and returns how long
// to pause for commits.
func (s *Store) flushNext(target uint64) (done bool, pause time.Duration, err error) {
	s.beginSlice()
	defer s.endSlice()
	if s.tail.flushed >= target {
		return true, 0, nil
	}
	ctx := context.Background()
	fits, err := s.copies.Fits(ctx, s.w.Conn, sqlitedb.SpareRoom)
	if err != nil {
		return false, 0, err
	}
	if !fits {
		return false, 0, entity.ErrFull
	}
	began := time.Now()
	err = s.flushSlice(ctx)
	return false, time.Duration(float64(time.Since(began)) * s.pace()), err
}

// pace returns how long the pause after a slice is, in times of the slice: shorter the closer
// the tail comes to maxTail. A commit that must move rows itself takes many times as long as one
// that waits for a slice. REQUIRES: s.writing held.
func (s *Store) pace() float64 {
	room := float64(s.maxTail-s.tail.bytes) / float64(s.maxTail-flushBytes)
	return min(max(room, leastPause), 1)
}

// flushTo moves rows until the changes up to target are in the tables. REQUIRES:
// s.writing held.
func (s *Store) flushTo(ctx context.Context, target uint64) error {
	for s.tail.flushed < target {
		if err := s.flushSlice(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flushAll moves all that is committed.
func (s *Store) flushAll(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.flushTo(ctx, s.Info().LastChange)
}

// makeRoom moves rows while the tail is too large, in memory or in the log, which
// cannot be shortened before they are moved. REQUIRES: s.writing held.
func (s *Store) makeRoom(ctx context.Context) error {
	if 2*s.tail.logged > s.opts.ChangeLogBytes {
		return s.flushTo(ctx, s.Info().LastChange)
	}
	for s.tail.bytes > s.maxTail {
		if err := s.flushSlice(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flushSlice moves one slice, of a new round if none is under way. REQUIRES:
// s.writing held.
func (s *Store) flushSlice(ctx context.Context) error {
	t := s.tail
	if t.round == nil {
		byNum := func(a, b *tailEntity) int { return cmp.Compare(a.num, b.num) }
		t.round = &round{left: slices.SortedFunc(maps.Values(t.entities), byNum), upTo: s.Info().LastChange}
		t.oldestNew, t.loggedNew = math.MaxInt64, 0
	}
	if t.edits > 0 {
		t.moves.Add(1)
	}
	p := picker{tail: t, packFrom: s.w.packFrom, left: t.round.left, parts: t.round.parts[:0]}
	began, size := time.Now(), min(s.slice, stepBytes)
	isOver := func() bool { return s.waiting.Load() > 0 }
	if t.bytes >= flushBytes {
		size = min(s.slice, largeStep)
		isOver = func() bool { return time.Since(began) >= sliceTime }
	}
	err := s.w.transact(ctx, false, func(tx *transaction) error {
		for room := s.slice; ; {
			step, bytes := p.step(min(room, size), t.round.upTo)
			if err := tx.move(step); err != nil {
				return err
			}
			room -= bytes
			switch {
			case len(p.left) == 0:
				return tx.complete(t.round.upTo)
			case room <= 0 || isOver():
				return nil
			}
		}
	})
	if err != nil {
		return fmt.Errorf("move readings into their tables: %w", err)
	}
	s.commits.Add(1)
	t.moved(&p)
	return nil
}

// part is some rows of an entity.
type part struct {
	e    *tailEntity
	rows []tailRow
}

// picker goes over the rows of a round in the order of the tables.
type picker struct {
	tail     *tail
	packFrom int
	left     []*tailEntity
	from     int    // of the first one's rows, where the next step begins
	parts    []part // so far
}

// step picks parts of about room bytes together, and returns their size: of each entity all rows up
// to the change upTo, and later ones as long as there is room. Rows that are packed into a block
// are a step of their own, regardless of room.
func (p *picker) step(room int64, upTo uint64) (parts []part, bytes int64) {
	first := len(p.parts)
	for bytes < room && len(p.left) > 0 {
		e := p.left[0]
		if p.from == 0 && len(e.rows) >= p.tail.sortFrom {
			p.tail.byKey(e, upTo)
		}
		rows, n := e.rows[p.from:], 0
		for ; n < len(rows) && bytes < room; n++ {
			if run, size := p.run(e, rows, n, upTo); run < p.packFrom {
				bytes += rows[n].bytes()
			} else if bytes > 0 {
				room = bytes // the run is the next step
				break
			} else {
				n, bytes, room = run, size/packSpeed, 0
				break
			}
		}
		if n == 0 && len(rows) > 0 {
			break
		}
		p.parts = append(p.parts, part{e, rows[:n]})
		if n < len(rows) && rows[n].change <= upTo {
			p.from += n
			break // the rest is for the next step
		}
		p.left, p.from = p.left[1:], 0
	}
	return p.parts[first:], bytes
}

// run counts the rows of a series that begin with the nth one, and their bytes, if these are
// sorted: 0 for one that is not the first of them.
func (p *picker) run(e *tailEntity, rows []tailRow, n int, upTo uint64) (run int, bytes int64) {
	if e.sorted != upTo || rows[n].edit || n > 0 && rows[n].key == rows[n-1].key && !rows[n-1].edit {
		return 0, 0
	}
	for i := n; i < len(rows) && bytes < packBytes; i++ {
		if r := &rows[i]; r.edit || r.key != rows[n].key || r.change > upTo {
			break
		}
		run++
		bytes += rows[i].bytes()
	}
	return run, bytes
}

// moved records what is in the tables now.
func (t *tail) moved(p *picker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.edits > 0 { // once more: a reader may have begun since the slice has
		t.moves.Add(1)
	}
	for i := range p.parts {
		t.drop(p.parts[i].e, len(p.parts[i].rows))
	}
	clear(p.parts)
	t.round.left, t.round.parts = p.left, p.parts
	if len(p.left) == 0 {
		t.flushed, t.oldest, t.logged, t.since = t.round.upTo, t.oldestNew, t.loggedNew, time.Now()
		t.round = nil
	}
}

// move writes rows of the tail.
func (t *transaction) move(parts []part) error {
	w := t.w
	w.rows = w.rows[:0]
	for _, p := range parts {
		for i := range p.rows {
			if !p.rows[i].edit {
				w.rows = append(w.rows, movedRow{p.e.num, &p.rows[i]})
			}
		}
	}
	defer clear(w.rows)
	// By series, and those of the same time as they came: the later replaces the earlier.
	slices.SortStableFunc(w.rows, func(a, b movedRow) int {
		return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.key.num, b.key.num), cmp.Compare(a.ts, b.ts))
	})
	if err := t.latest(); err != nil {
		return err
	}
	if err := t.pack(); err != nil {
		return err
	}
	defer clear(w.loose)
	slices.SortStableFunc(w.loose, func(a, b movedRow) int { return cmp.Compare(a.hour(), b.hour()) }) // as the table is
	if err := t.history(); err != nil {
		return err
	}
	if err := t.computed(); err != nil {
		return err
	}
	return t.moveEdits(parts)
}

// complete records the end of the round that ends with this slice.
func (t *transaction) complete(upTo uint64) error {
	_, err := t.query("UPDATE meta SET value = ? WHERE name = 'flushed'", 1, strconv.FormatUint(upTo, 10))
	return err
}

// movedRow is a row of the tail on its way into the tables.
type movedRow struct {
	entity int64
	*tailRow
}

func (r *movedRow) hour() int64 { return r.ts / hourMS }

// latest writes the newest of each series. REQUIRES: w.rows in the order of series.
func (t *transaction) latest() error {
	w := t.w
	w.newest = w.newest[:0]
	for _, r := range w.rows {
		n := len(w.newest)
		if n == 0 || w.newest[n-1].entity != r.entity || w.newest[n-1].key != r.key {
			w.newest = append(w.newest, r)
		} else if r.newer(w.newest[n-1].ts, w.newest[n-1].seq) {
			w.newest[n-1] = r
		}
	}
	defer clear(w.newest)
	return t.Bulk(&w.latest, len(w.newest), func(i int, row []driver.NamedValue) {
		r := w.newest[i]
		row[0].Value, row[1].Value, row[2].Value, row[3].Value = r.entity, r.key.num, r.ts, int64(r.seq)
		row[4].Value, row[5].Value = int64(r.value.Kind()), column(r.value)
	})
}

// history writes the rows of the telemetry and its hours. The inserts walk along the trees.
func (t *transaction) history() error {
	w := t.w
	if err := t.seriesHours(); err != nil {
		return err
	}
	now := time.Now()
	for from := 0; from < len(w.loose); {
		hour, n := w.loose[from].hour(), from
		for n < len(w.loose) && w.loose[n].hour() == hour {
			n++
		}
		if err := t.hour(hour); err != nil {
			return err
		}
		w.touched.Touch(hour, n-from, now)
		from = n
	}
	return t.Bulk(&w.telemetry, len(w.loose), func(i int, row []driver.NamedValue) {
		r := &w.loose[i]
		row[0].Value, row[1].Value, row[2].Value, row[3].Value = r.hour(), r.entity, r.key.num, r.ts
		row[4].Value, row[5].Value, row[6].Value = int64(r.place().Seq), int64(r.value.Kind()), column(r.value)
	})
}

// seriesHour is a row of the table series_hour. The zero value is none.
type seriesHour struct{ entity, key, hour int64 }

// listedHours remembers rows of series_hour, one of a series, to not insert them again. A
// series may take the place of another one.
type listedHours [1 << 15]seriesHour

// slot returns where the hour of a series is, if it is known.
func (l *listedHours) slot(h seriesHour) *seriesHour {
	return &l[(h.entity*31+h.key)&int64(len(l)-1)]
}

// forget forgets a row that has been deleted.
func (l *listedHours) forget(h seriesHour) {
	if slot := l.slot(h); *slot == h {
		*slot = seriesHour{}
	}
}

// seriesHours makes sure that the rows can be found. REQUIRES: w.loose in the order of hours and
// series.
func (t *transaction) seriesHours() error {
	w := t.w
	w.starts = w.starts[:0]
	for i := range w.loose {
		r := &w.loose[i]
		if i == 0 || w.loose[i-1].entity != r.entity || w.loose[i-1].key != r.key || w.loose[i-1].hour() != r.hour() {
			if h := (seriesHour{r.entity, r.key.num, r.hour()}); *w.listed.slot(h) != h {
				*w.listed.slot(h) = h
				w.starts = append(w.starts, i)
			}
		}
	}
	return t.Bulk(&w.seriesHour, len(w.starts), func(i int, row []driver.NamedValue) {
		r := &w.loose[w.starts[i]]
		row[0].Value, row[1].Value, row[2].Value = r.entity, r.key.num, r.hour()
	})
}

// computed writes the origins of computed values.
func (t *transaction) computed() error {
	w := t.w
	w.rows = slices.DeleteFunc(w.rows, func(r movedRow) bool { return r.source == nil })
	return t.Bulk(&w.computed, len(w.rows), func(i int, row []driver.NamedValue) {
		r := &w.rows[i]
		row[0].Value, row[1].Value, row[2].Value = r.entity, r.key.num, r.ts
		row[3].Value, row[4].Value, row[5].Value = int64(r.seq), r.source.num, int64(r.n)
	})
}

// replay restores the tail from the changes that are not in the tables.
func (s *Store) replay(ctx context.Context) error {
	var flushed string
	if err := s.readDB.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'flushed'").Scan(&flushed); err != nil {
		return fmt.Errorf("read up to where the tables are complete: %w", err)
	}
	var err error
	if s.tail.flushed, err = strconv.ParseUint(flushed, 10, 64); err != nil {
		return fmt.Errorf("read up to where the tables are complete: %w", err)
	}
	s.tail.since = time.Now()
	rows, err := s.queries.changes.QueryContext(ctx, int64(s.tail.flushed)+1)
	if err != nil {
		return fmt.Errorf("read the change log: %w", err)
	}
	s.tail.mu.Lock()
	defer s.tail.mu.Unlock()
	err = scan(rows, func() error {
		var first, n, committed int64
		var data []byte
		if err := rows.Scan(&first, &n, &committed, &data); err != nil {
			return err
		}
		s.tail.logged += int64(len(data))
		var unknown error
		err := changelog.Decode(data, uint64(first), n, committed, func(c entity.LoggedChange, seq uint64) bool {
			unknown = s.tail.replay(&c, seq, s.w.keys)
			return unknown == nil
		})
		return errors.Join(unknown, err)
	})
	if err == nil {
		err = s.number(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the change log: %w", err)
	}
	return nil
}

// replay adds the rows of a change, of an entity whose number is not known yet.
// REQUIRES: mu held.
func (t *tail) replay(c *entity.LoggedChange, seq uint64, keys map[string]*name) error {
	switch {
	case c.Seq <= t.flushed:
		return nil
	case c.Edit != nil:
		return t.replayEdit(c, keys)
	case c.Command != nil, c.Presence != nil: // in the table with its commit
		return nil
	}
	source := keys[c.Origin.Source]
	if source == nil && !c.Origin.IsZero() {
		return fmt.Errorf("%w: the source %q of change %d is unknown", changelog.ErrDamaged, c.Origin.Source, c.Seq)
	}
	for i := range c.Values {
		v := &c.Values[i]
		key := keys[v.Key]
		if key == nil {
			return fmt.Errorf("%w: the key %q of change %d is unknown", changelog.ErrDamaged, v.Key, c.Seq)
		}
		t.add(c.Entity, 0, tailRow{key: key, source: source, ts: c.TS, seq: seq, arrived: c.Arrived, n: c.Origin.Seq, change: c.Seq, value: v.Value})
	}
	return nil
}

// replayEdit is replay for an edit.
func (t *tail) replayEdit(c *entity.LoggedChange, keys map[string]*name) error {
	if c.Edit.Deleted {
		if e := t.entities[c.Entity]; e != nil {
			t.drop(e, len(e.rows))
		}
		return nil
	}
	t.add(c.Entity, 0, editRows(c.Edit, c.Seq, keys)...)
	return nil
}

// numberPage is how many entities are looked up at once.
const numberPage = 1000

// number finds the numbers of the entities in the tail, and drops those that have been
// deleted since. REQUIRES: s.tail.mu held.
func (s *Store) number(ctx context.Context) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(s.tail.entities)), numberPage) {
		list, err := jsonArray(ids)
		if err != nil {
			return err
		}
		rows, err := s.readDB.QueryContext(ctx, "SELECT id, num FROM entity WHERE id IN (SELECT value FROM json_each(?))", list)
		if err != nil {
			return err
		}
		err = scan(rows, func() error {
			var id string
			var num int64
			err := rows.Scan(&id, &num)
			if e := s.tail.entities[id]; e != nil {
				e.num = num
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if e := s.tail.entities[id]; e.num == 0 {
				s.tail.drop(e, len(e.rows))
			}
		}
	}
	return nil
}
