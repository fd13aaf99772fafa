package sqlite

import (
	"fmt"
	"time"
)

const (
	// shortenEvery is how often the store looks for old changes.
	shortenEvery = time.Minute
	// shortenStep is how many commits are dropped from the log at once: more than one, so that the log
	// shrinks although every commit adds one, and few enough to go unnoticed.
	shortenStep = 8
)

// shortens drops old changes from the log until stop is closed.
func (s *Store) shortens(stop <-chan struct{}) {
	ticker := time.NewTicker(min(shortenEvery, s.opts.ChangeLogAge/4+time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		// A failure is retried at the next tick; meanwhile ChangeLogBytes limits the log.
		_ = s.shorten(stop, time.Now())
	}
}

// shorten drops old changes, slice by slice with commits in between, until stop is closed. For
// ChangeLogAge after Open it drops none, because followers of the changes resume from
// the log.
func (s *Store) shorten(stop <-chan struct{}, now time.Time) error {
	if now.Sub(s.opened) < s.opts.ChangeLogAge {
		return nil
	}
	before := now.Add(-s.opts.ChangeLogAge).UnixMilli()
	_, err := s.slices(stop, func(t *transaction) (bool, error) {
		for {
			if done, err := t.shorten(before, s.tail.flushed); done || err != nil || t.isOver() {
				return done, err
			}
		}
	})
	return err
}

// shorten drops some of the oldest commits made before the given time from the log, and reports
// whether none are left. It keeps commits whose readings are not in the tables yet, and always
// the newest one, because its number must survive.
func (t *transaction) shorten(before int64, flushed uint64) (done bool, err error) {
	row, err := t.query(`SELECT count(*), max(first), sum(bytes), max(last) FROM
		(SELECT first, first + n - 1 AS last, committed, length(data) AS bytes FROM change
			WHERE first < (SELECT max(first) FROM change) ORDER BY first LIMIT +?)
		WHERE last <= ? AND committed < ?`, 4, int64(shortenStep), int64(flushed), before)
	if err != nil {
		return false, fmt.Errorf("shorten the change log: %w", err)
	}
	n := first[int64](row)
	if n == 0 {
		return true, nil
	}
	if _, err := t.query("DELETE FROM change WHERE first <= ?", 1, row[1]); err != nil {
		return false, fmt.Errorf("shorten the change log: %w", err)
	}
	t.w.logBytes -= first[int64](row[2:])
	t.dropped = uint64(first[int64](row[3:]))
	return n < shortenStep, nil
}

// dropped records that the log has lost all changes up to last.
func (s *Store) dropped(last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.FirstChange = max(s.info.FirstChange, last+1)
}
