package mapping

import (
	"cmp"
	"context"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// walk reads the history of a key at ascending times. It reads pages if the times are close
// together, and skips the values between them if not.
type walk struct {
	r       Reader
	id, key string

	page  []entity.Point
	ended bool // there is nothing behind the page
	size  int  // of the next page
	used  int  // how often the page had what was asked for
}

// Sizes of the pages of a walk, which double as long as most of a page is used.
const (
	walkLeast = 16
	walkMost  = 1024
)

// seek returns the readings from a time on: at least n, or all there are.
func (w *walk) seek(ctx context.Context, ts int64, n int) ([]entity.Point, error) {
	i, _ := slices.BinarySearchFunc(w.page, ts, func(p entity.Point, ts int64) int { return cmp.Compare(p.TS, ts) })
	w.page = w.page[i:]
	if len(w.page) >= n || w.ended {
		w.used++
		return w.page, nil
	}
	if w.size = max(w.size, walkLeast); 2*w.used >= w.size {
		w.size = min(2*w.size, walkMost)
	} else {
		w.size = walkLeast
	}
	limit := max(n, w.size)
	page, err := w.r.Points(ctx, w.id, w.key, ts, end, limit, false)
	if err != nil {
		return nil, err
	}
	w.page, w.ended, w.used = page, len(page) < limit, 0
	return page, nil
}

// at returns the value at exactly a time, the zero Value for none.
func (w *walk) at(ctx context.Context, ts int64) (value.Value, error) {
	points, err := w.seek(ctx, ts, 1)
	if err != nil || len(points) == 0 || points[0].TS != ts {
		return value.Value{}, err
	}
	return points[0].Value, nil
}
