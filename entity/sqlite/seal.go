package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// Rows of the telemetry to which nothing is added any more are sealed: packed into blocks
// (entity/block), at a tenth of their size. The sealer goes hour by hour, like the table, and
// within an hour series by series, in slices like those of the flush: short transactions that are
// not synced, and leave the database in an equivalent state. If a loss of power undoes a slice, or
// the process ends between two, there are rows instead of a block, and they are sealed again.
//
//   - The blocks of a series do not overlap. A row may lie in the range of a block if it came
//     later. If both have the same place the row counts, until the sealer folds it in.
//   - Data moves only from the log into rows, or many rows of a series at once into a block, and
//     from rows into blocks. Readers read the log's tail first; rows and blocks are read in one
//     statement or one snapshot.
//   - A series whose blocks were small gets larger ones: a new block absorbs the previous one while
//     that is less than twice as large. So each value is repacked a logarithmic number of times.
//   - Equal times of an entity are kept once, in the table stamp: the keys of a message have
//     the same. Blocks share a stamp if the times are equal byte for byte; the last one that
//     is deleted deletes it.
const (
	// DefaultSealAfter is how long nothing must have arrived for an hour before it is sealed.
	DefaultSealAfter = sealed.DefaultAfter

	// A slice has sliceRows rows at most. It ends after sliceTime, or as soon as somebody
	// waits to write, with the rows that it seals at once: runRows at most, and not many more
	// than have sealBytes bytes of texts.
	runRows   = 1024
	sliceRows = 4096
	sealBytes = 256 << 10
	sliceTime = 2 * time.Millisecond

	// ownTimes is the size up to which a block has its times itself.
	ownTimes = 64
)

// seals seals hours until stop is closed.
func (s *Store) seals(stop <-chan struct{}) {
	ticker := time.NewTicker(sealed.Every(s.opts.SealAfter))
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		// Rows that could not be sealed stay, and sealing them is retried.
		if err := s.sealHours(stop, false); err != nil {
			s.failures.Note(s.opts.Logger, err)
		}
	}
}

// sealHours seals the hours that are due, or all, slice by slice, until stop is closed.
func (s *Store) sealHours(stop <-chan struct{}, all bool) error {
	var errs []error
	for after := int64(math.MinInt64); ; {
		hours, err := s.hoursAfter(after)
		if err != nil || len(hours) == 0 {
			return errors.Join(append(errs, err)...)
		}
		for _, hour := range hours {
			s.writing.Lock()
			due := all || s.w.touched.Due(hour, time.Now())
			s.writing.Unlock()
			if !due {
				continue
			}
			stopped, err := s.sealHour(stop, hour)
			if stopped {
				return nil
			}
			errs = append(errs, err)
			if errors.Is(err, entity.ErrFull) {
				return errors.Join(errs...)
			}
		}
		after = hours[len(hours)-1]
	}
}

// hoursAfter returns some of the hours that have rows.
func (s *Store) hoursAfter(after int64) (hours []int64, err error) {
	const page = 1000
	rows, err := s.readDB.QueryContext(context.Background(), "SELECT hour FROM hour WHERE hour > ? ORDER BY hour LIMIT +?", after, page) //nolint:sqlclosecheck // scan does
	if err != nil {
		return nil, fmt.Errorf("read the hours: %w", err)
	}
	err = scan(rows, func() error {
		var hour int64
		err := rows.Scan(&hour)
		hours = append(hours, hour)
		return err
	})
	return hours, err
}

// sealHour seals an hour, with commits in between.
func (s *Store) sealHour(stop <-chan struct{}, hour int64) (stopped bool, err error) {
	c := sealCursor{hour: hour}
	stopped, err = s.slices(stop, func(t *transaction) (bool, error) { return t.seal(&c) })
	if err == nil {
		err = c.failed
	}
	return stopped, err
}

// slices makes slices until f has done all, or stop is closed.
func (s *Store) slices(stop <-chan struct{}, f func(t *transaction) (done bool, err error)) (stopped bool, err error) {
	return s.between(stop, func() (bool, time.Duration, error) { return s.sealSlice(f) })
}

// between makes slices until one says that it was the last, or stop is closed. After each there is
// the time that it names for the commits, which have to wait for slices.
func (s *Store) between(stop <-chan struct{}, slice func() (done bool, pause time.Duration, err error)) (stopped bool, err error) {
	for {
		done, wait, err := slice()
		if done || err != nil {
			return false, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-stop:
			pause.Stop()
			return true, nil
		case <-pause.C:
		}
		runtime.Gosched()
	}
}

// sealSlice makes one slice, if the disk has room for it, and returns how long it took, which is
// then left to the commits.
func (s *Store) sealSlice(f func(t *transaction) (done bool, err error)) (done bool, took time.Duration, err error) {
	s.beginSlice()
	defer s.endSlice()
	ctx := context.Background()
	fits, err := s.copies.Fits(ctx, s.w.Conn, sqlitedb.SpareRoom)
	if err != nil {
		return false, 0, err
	}
	if !fits {
		return false, 0, entity.ErrFull
	}
	began := time.Now()
	var dropped uint64
	err = s.w.transact(ctx, false, func(t *transaction) (err error) {
		t.isOver = func() bool { return s.waiting.Load() > 0 || time.Since(began) >= sliceTime }
		done, err = f(t)
		dropped = t.dropped
		return err
	})
	if err != nil {
		return false, 0, err
	}
	s.dropped(dropped)
	s.commits.Add(1)
	return done, time.Since(began), nil
}

// sealCursor is how far an hour is sealed. A transaction advances it; a failed one is retried from
// there in the next pass.
type sealCursor struct {
	hour, entity, key int64 // the series in work; those before it are sealed
	failed            error // why a series stays as it is
}

// seal seals rows of an hour from the cursor on, and reports whether that was all.
func (t *transaction) seal(c *sealCursor) (done bool, err error) {
	for rows := 0; rows+t.w.runRows <= sliceRows; {
		n, done, err := t.sealRun(c)
		switch {
		case sealed.Unreadable(err):
			// The rows stay as they are, and the rest is sealed.
			c.failed = errors.Join(c.failed, err)
			c.key++
		case err != nil:
			return false, err
		case done:
			return true, t.endHour(c)
		}
		if rows += n; t.isOver() {
			break
		}
	}
	return false, nil
}

// endHour forgets an hour that has no rows any more.
func (t *transaction) endHour(c *sealCursor) error {
	t.w.touched.Sealed(c.hour)
	if c.failed != nil {
		t.w.touched.Touch(c.hour, 0, time.Now()) // it is tried again later
	}
	row, err := t.query("DELETE FROM hour WHERE hour = ?1 AND NOT EXISTS (SELECT 1 FROM telemetry WHERE hour = ?1) RETURNING 1", 1, c.hour)
	if row != nil {
		delete(t.w.hours, c.hour)
	}
	return err
}

// nextSeries finds the first series of an hour from an entity and a key on, and whether its
// entity exists. It must be one step along the index: as a condition of the search, the entity
// would make SQLite try each one that exists.
const nextSeries = `SELECT t.entity, t.key, EXISTS (SELECT 1 FROM entity WHERE num = t.entity)
	FROM telemetry t WHERE t.hour = ?1 AND (t.entity, t.key) >= (?2, ?3) ORDER BY t.entity, t.key LIMIT 1`

// sealRun seals the next rows of an hour, of one series, and returns how many, and whether there
// are no others. Where a block lies behind the rows, it seals only those before it. It passes
// over an entity that is being deleted (purge).
func (t *transaction) sealRun(c *sealCursor) (n int, done bool, err error) {
	row, err := t.query(nextSeries, 3, c.hour, c.entity, c.key)
	if err != nil || row == nil {
		return 0, err == nil, err
	}
	c.entity, c.key = first[int64](row), first[int64](row[1:])
	if first[int64](row[2:]) == 0 {
		c.entity, c.key = c.entity+1, math.MinInt64
		return 0, false, nil
	}
	n, err = t.sealSeries(c.hour, c.entity, c.key)
	return n, false, err
}

// sealSeries is sealRun for the first rows of a series in an hour.
func (t *transaction) sealSeries(hour, num, key int64) (n int, err error) {
	run := &t.w.run
	if err := t.readRun(run, hour, num, key); err != nil || run.Len() == 0 {
		return 0, err
	}
	if n, err = t.w.packer.Seal(sealedSeries{t, num, key}, run); err != nil {
		return 0, err
	}
	_, err = t.query("DELETE FROM telemetry WHERE hour = ? AND entity = ? AND key = ? AND (ts, seq) <= (?, ?)", 1,
		hour, num, key, run.TS[n-1], int64(run.SeqAt(n-1)))
	if err == nil {
		err = (sealedSeries{t, num, key}).endHours(hour, hour)
	}
	return n, err
}

// pack makes blocks of the rows of series that have many in the tail: that takes a tenth of the
// time and of the disk, and they would soon have been sealed. It leaves the other rows in w.loose.
// REQUIRES: w.rows in the order of series.
func (t *transaction) pack() error {
	w := t.w
	w.loose = w.loose[:0]
	for from := 0; from < len(w.rows); {
		n := from + 1
		for n < len(w.rows) && w.rows[n].entity == w.rows[from].entity && w.rows[n].key == w.rows[from].key {
			n++
		}
		packed := from
		if n-from >= w.packFrom {
			some, err := t.packRows(w.rows[from:n])
			if err != nil && !sealed.Unreadable(err) && !errors.Is(err, block.ErrLimit) {
				return err
			}
			packed += some // the sealer tells what is wrong with the others
		}
		w.loose = append(w.loose, w.rows[packed:n]...)
		from = n
	}
	return nil
}

// packRows is pack for rows of one series, at least one, and returns how many it has packed, the
// first ones. It ends where few of them lie over the same block.
func (t *transaction) packRows(rows []movedRow) (packed int, err error) {
	slices.SortStableFunc(rows, func(a, b movedRow) int { return a.place().Compare(b.place()) })
	s := sealedSeries{t, rows[0].entity, rows[0].key.num}
	if vacant, err := s.vacate(rows[0].hour(), rows[len(rows)-1].hour()); err != nil || !vacant {
		return 0, err
	}
	run := &t.w.run
	run.Reset()
	for i := range rows {
		if at := rows[i].place(); i == len(rows)-1 || at != rows[i+1].place() { // the later replaces the earlier
			run.Append(at.TS, at.Seq, rows[i].value)
		}
	}
	// Where hours have many values, blocks end with them, so that questions by hours need not open them.
	dense := int(rows[len(rows)-1].hour()-rows[0].hour()) < len(rows)/packFrom
	for left := *run; left.Len() > 0; {
		part := left
		if dense {
			part = left.Slice(0, left.Search((left.TS[0]/hourMS+1)*hourMS, 0))
		}
		n, err := t.w.packer.Seal(s, &part)
		if err != nil {
			return packed, err
		}
		last := entity.Place{TS: left.TS[n-1], Seq: left.SeqAt(n - 1)}
		for packed < len(rows) && rows[packed].place().Compare(last) <= 0 {
			packed++
		}
		if n < min(t.w.packFrom, part.Len()) {
			break
		}
		if dense && n < left.Len() {
			if err := s.joinHour(left.TS[0] / hourMS); err != nil {
				return packed, err
			}
		}
		left = left.Slice(n, left.Len())
	}
	return packed, nil
}

// joinHour makes one block of those that begin in an hour, if they fit.
func (s sealedSeries) joinHour(hour int64) error {
	first, err := s.Find(entity.Place{TS: hour*hourMS - 1, Seq: math.MaxInt64}, true)
	if err != nil || first == nil {
		return err
	}
	return s.w.packer.Join(s, first.First)
}

// vacate seals the rows of a series from one hour to another, which would take precedence over
// later ones in a block, and reports whether there are none any more: it does not if there are
// many.
func (s sealedSeries) vacate(first, last int64) (bool, error) {
	for range 3 {
		row, err := s.query("SELECT hour FROM series_hour WHERE entity = ? AND key = ? AND hour BETWEEN ? AND ? ORDER BY hour LIMIT 1", 1, s.entity, s.key, first, last)
		if err != nil || row == nil {
			return err == nil, err
		}
		if _, err := s.sealSeries(row[0].(int64), s.entity, s.key); err != nil {
			return false, err
		}
	}
	return false, nil
}

// endHours forgets those of the hours from first to last in which the series has no rows any more.
func (s sealedSeries) endHours(first, last int64) error {
	return s.Each(`DELETE FROM series_hour AS h WHERE entity = ?1 AND key = ?2 AND hour BETWEEN ?3 AND ?4
		AND NOT EXISTS (SELECT 1 FROM telemetry WHERE hour = h.hour AND entity = ?1 AND key = ?2) RETURNING hour`, 1,
		func(row []driver.Value) (bool, error) {
			hour, _ := row[0].(int64)
			s.w.listed.forget(seriesHour{s.entity, s.key, hour})
			return true, nil
		}, s.entity, s.key, first, last)
}

// readRun reads the first rows of a series in an hour.
func (t *transaction) readRun(run *block.Columns, hour, num, key int64) error {
	run.Reset()
	size := 0
	return t.Each("SELECT ts, seq, kind, value FROM telemetry WHERE hour = ? AND entity = ? AND key = ? ORDER BY ts, seq LIMIT +?", 4,
		func(row []driver.Value) (bool, error) {
			v, err := valueOf(first[int64](row[2:]), row[3])
			if err != nil {
				return false, err
			}
			run.Append(first[int64](row), uint64(first[int64](row[1:])), v)
			size += len(v.Text())
			return size < sealBytes, nil
		}, hour, num, key, int64(t.w.runRows))
}

// sealedSeries are the blocks of a series, for the one who writes.
type sealedSeries struct {
	*transaction
	entity, key int64
}

const blockColumns = "SELECT num, first, first_seq, last, last_seq, n FROM block WHERE entity = ?1 AND key = ?2 "

func (s sealedSeries) block(sql string, args ...any) (*sealed.Stored, error) {
	row, err := s.query(blockColumns+sql, 6, append([]any{s.entity, s.key}, args...)...)
	if err != nil || row == nil {
		return nil, err //nolint:nilnil // there is none
	}
	at := func(i int) int64 { return first[int64](row[i:]) }
	return &sealed.Stored{
		Num: at(0), First: entity.Place{TS: at(1), Seq: uint64(at(2))}, Last: entity.Place{TS: at(3), Seq: uint64(at(4))}, Count: int(at(5)),
	}, nil
}

// Find returns the last block that begins at a place or before, or the first one that begins
// after it. See [sealed.Series].
func (s sealedSeries) Find(at entity.Place, behind bool) (*sealed.Stored, error) {
	if behind {
		return s.block("AND (first, first_seq) > (?3, ?4) ORDER BY first, first_seq LIMIT 1", at.TS, int64(at.Seq))
	}
	return s.block("AND (first, first_seq) <= (?3, ?4) ORDER BY first DESC, first_seq DESC LIMIT 1", at.TS, int64(at.Seq))
}

// Open unpacks a block.
func (s sealedSeries) Open(b *sealed.Stored, c *block.Columns) error {
	row, err := s.query("SELECT b.data, coalesce(b.times, s.data) FROM block b LEFT JOIN stamp s ON s.num = b.stamp WHERE b.num = ?", 2, b.Num)
	if err != nil {
		return err
	}
	if row == nil {
		return fmt.Errorf("block %d is gone", b.Num)
	}
	if _, err = s.w.unpacker.Decode(block.Block{Values: first[[]byte](row), Times: first[[]byte](row[1:])}, c); err != nil {
		err = fmt.Errorf("entity number %d key number %d: %w", s.entity, s.key, sealed.Failed(err, b.First.TS, b.Last.TS))
	}
	return err
}

// Replace puts blocks in place of others.
func (s sealedSeries) Replace(old []*sealed.Stored, parts []sealed.Part) error {
	var stamps []int64
	for _, b := range old {
		row, err := s.query("DELETE FROM block WHERE num = ? RETURNING stamp", 1, b.Num)
		if err != nil {
			return err
		}
		if stamp, ok := row[0].(int64); ok {
			stamps = append(stamps, stamp)
		}
	}
	for i := range parts {
		if err := s.insert(&parts[i]); err != nil {
			return err
		}
	}
	return s.releaseStamps(stamps)
}

// releaseStamps deletes the stamps that no block has any more.
func (t *transaction) releaseStamps(stamps []int64) error {
	for _, stamp := range stamps {
		if _, err := t.query("DELETE FROM stamp WHERE num = ?1 AND NOT EXISTS (SELECT 1 FROM block WHERE stamp = ?1)", 1, stamp); err != nil {
			return err
		}
	}
	return nil
}

func (s sealedSeries) insert(p *sealed.Part) (err error) {
	var own, stamp any = p.Times, nil
	if len(p.Times) > ownTimes {
		own = nil
		if stamp, err = s.stamp(p.Times); err != nil {
			return err
		}
	}
	_, err = s.query("INSERT INTO block (entity, key, first, first_seq, last, last_seq, n, numbers, stamp, times, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", 1,
		s.entity, s.key, p.First.TS, int64(p.First.Seq), p.Last.TS, int64(p.Last.Seq), int64(p.Count), int64(p.Numbers), stamp, own, p.Values)
	return err
}

// stamp returns the number of the times, which are stored if the entity does not have them.
func (s sealedSeries) stamp(times []byte) (num int64, err error) {
	h := fnv.New64a()
	_, _ = h.Write(times) // it cannot fail
	hash := int64(h.Sum64())
	err = s.Each("SELECT num, data FROM stamp WHERE entity = ? AND hash = ?", 2, func(row []driver.Value) (bool, error) {
		if bytes.Equal(first[[]byte](row[1:]), times) {
			num = first[int64](row)
		}
		return num == 0, nil
	}, s.entity, hash)
	if err != nil || num != 0 {
		return num, err
	}
	row, err := s.query("INSERT INTO stamp (entity, hash, data) VALUES (?, ?, ?) RETURNING num", 1, s.entity, hash, times)
	return first[int64](row), err
}

// join makes one of blocks of a series that follow each other, from a place on, and are
// small enough, and reports whether that was all.
func (t *transaction) join(c *joinCursor) (done bool, err error) {
	for {
		row, err := t.query(`SELECT entity, key, first, first_seq FROM block INDEXED BY block_place
			WHERE (entity, key, first, first_seq) > (?, ?, ?, ?) ORDER BY entity, key, first, first_seq LIMIT 1`, 4, c.entity, c.key, c.first, int64(c.seq))
		if err != nil || row == nil {
			return err == nil, err
		}
		c.entity, c.key, c.first, c.seq = first[int64](row), first[int64](row[1:]), first[int64](row[2:]), uint64(first[int64](row[3:]))
		if err := t.w.packer.Join(sealedSeries{t, c.entity, c.key}, entity.Place{TS: c.first, Seq: c.seq}); err != nil {
			return false, err
		}
		if t.isOver() {
			return false, nil
		}
	}
}

// joinCursor is the block that was looked at last.
type joinCursor struct {
	entity, key, first int64
	seq                uint64
}

// Compact seals all that can be sealed, slice by slice between the commits, and makes large blocks
// of small ones. What cannot be sealed stays as rows, and the error says why. The freed space is
// reused; Shrink returns it to the disk.
func (s *Store) Compact(ctx context.Context) (err error) {
	defer failure.In(&err, "compact")
	if err := s.flush(ctx.Done()); err != nil {
		return err
	}
	s.compacting.Lock() // one at a time: each takes its share of the time between commits
	defer s.compacting.Unlock()
	failed := s.sealHours(ctx.Done(), true)
	if failed != nil && !sealed.Unreadable(failed) {
		return failed
	}
	var c joinCursor
	_, err = s.slices(ctx.Done(), func(t *transaction) (bool, error) { return t.join(&c) })
	return errors.Join(failed, err, context.Cause(ctx))
}

// Shrink returns free space of the database to the disk. Nobody can write meanwhile. The disk must
// have room for a second copy of the database, and so must the directory for temporary files, where
// SQLite puts the copy (SQLITE_TMPDIR, TMPDIR, or /var/tmp).
func (s *Store) Shrink(ctx context.Context) (err error) {
	defer failure.In(&err, "shrink the database")
	s.begin()
	defer s.writing.Unlock()
	var size int64
	if err := s.w.Conn.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&size); err != nil {
		return err
	}
	fits, err := s.copies.Fits(ctx, s.w.Conn, 2*size)
	if err != nil {
		return err
	}
	if !fits {
		return fmt.Errorf("%w: it needs %d bytes for a while", entity.ErrFull, 2*size)
	}
	if err := s.w.Durable(ctx); err != nil {
		return err
	}
	// VACUUM makes a copy of the database, which does not belong in memory.
	if _, err := s.w.Conn.ExecContext(ctx, "PRAGMA temp_store = FILE"); err != nil {
		return err
	}
	_, err = s.w.Conn.ExecContext(ctx, "VACUUM")
	_, back := s.w.Conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA temp_store = MEMORY")
	if err := errors.Join(err, back); err != nil {
		return err
	}
	s.clearMark()
	_, err = s.w.Conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// checkBlocks unpacks all blocks, compares them with their rows, and says what is wrong.
func (s *Store) checkBlocks(ctx context.Context) (wrong []error) {
	u := s.unpackers.Take()
	defer s.unpackers.Give(u)
	var id, key string // of the last block
	var last entity.Place
	rows, err := s.readDB.QueryContext(ctx, `SELECT coalesce(e.id, ''), coalesce(k.name, ''), b.first, b.first_seq, b.last, b.last_seq, b.n, b.numbers, b.data, coalesce(b.times, s.data, x'')
		FROM block b LEFT JOIN stamp s ON s.num = b.stamp LEFT JOIN entity e ON e.num = b.entity LEFT JOIN key k ON k.num = b.key
		ORDER BY b.entity, b.key, b.first, b.first_seq`)
	if err != nil {
		return []error{err}
	}
	err = scan(rows, func() error {
		var e, k string
		var from, to entity.Place
		var n, numbers int
		var data, times sql.RawBytes
		if err := rows.Scan(&e, &k, &from.TS, &from.Seq, &to.TS, &to.Seq, &n, &numbers, &data, &times); err != nil {
			return err
		}
		h, err := u.Decode(block.Block{Values: data, Times: times}, &u.Columns)
		switch {
		case err != nil:
		case h.Count != n || h.Numbers != numbers || (entity.Place{TS: h.First, Seq: h.FirstSeq}) != from || (entity.Place{TS: h.Last, Seq: h.LastSeq}) != to:
			err = errors.New("its row says other than the block")
		case e == id && k == key && from.Compare(last) <= 0:
			err = errors.New("it overlaps the block before")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("entity %q key %q: %w", e, k, sealed.Failed(err, from.TS, to.TS)))
		}
		id, key, last = e, k, to
		return nil
	})
	return append(wrong, err)
}
