package search

import (
	"log/slog"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
)

// fillPage is how many entities are put into columns under one lock.
const fillPage = 500

// fill makes the columns that are wanted, one pass after the other, until the index is
// closed.
func (x *index) fill() {
	for {
		select {
		case p := <-x.wanted:
			if err := x.fillColumns(p); err != nil && x.ctx.Err() == nil {
				x.log.LogAttrs(x.ctx, slog.LevelWarn, "search index: a column cannot be made", slog.String("path", p.String()), slog.Any("error", err))
			}
			x.mu.Lock()
			close(x.made)
			x.made = make(chan struct{})
			x.mu.Unlock()
		case <-x.ctx.Done():
			return
		}
	}
}

// fillColumns makes the column of a path, and of the others that are wanted by now, by
// reading all entities once. The follower applies what changes meanwhile; its values are
// newer and stay.
func (x *index) fillColumns(p filter.Path) error {
	paths := []filter.Path{p}
	x.mu.Lock() // a search asks for all its columns under the lock
	for len(x.wanted) > 0 {
		paths = append(paths, <-x.wanted)
	}
	columns := x.table.open(paths)
	generation, complete := x.table.generation, x.table.complete
	x.mu.Unlock()
	if complete && len(columns) == 0 {
		return nil // another pass has made them
	}
	var page []*entityview.View
	put := func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.table.generation != generation {
			return false // the follower has started over
		}
		for _, v := range page {
			x.table.put(v, columns, false)
		}
		page = page[:0]
		return true
	}
	same := true
	err := x.rt.Scan(x.ctx, entity.ListQuery{}, func(v entity.View) bool {
		if page = append(page, filterView(x.ctx, x.rt, v)); len(page) == fillPage {
			same = put()
		}
		return same
	})
	if err == nil && same {
		same = put()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || !same {
		x.table.drop(paths)
		return err
	}
	x.table.filled(columns)
	return nil
}
