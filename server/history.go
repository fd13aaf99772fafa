package server

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Limits of history requests.
const (
	// maxHistoryValues bounds the values and rows that one request reads.
	maxHistoryValues = 20_000_000
	// maxBuckets bounds the buckets of one series.
	maxBuckets = 100_000
	// maxDownsampled bounds the parameter points.
	maxDownsampled = 10_000
	// maxFuncs bounds the aggregates of each bucket.
	maxFuncs = 32

	historyPage = 20_000
)

// aggregation is the part of a request that is the same for one and for several series.
type aggregation struct {
	query series.Query
	step  time.Duration  // for a grid of fixed steps
	unit  string         // for a grid of the calendar
	zone  *time.Location // for the latter
}

// aggregationParam parses agg, step, tz and fill.
func aggregationParam(agg, step, tz, fill string, from, to int64) (aggregation, error) {
	a := aggregation{query: series.Query{From: from, MaxBuckets: maxBuckets}}
	if to <= entity.MaxTS {
		a.query.To = to
	}
	var err error
	if a.query.Funcs, err = parseFuncs(agg); err != nil {
		return a, err
	}
	if a.query.Fill, err = series.ParseFill(fill); err != nil {
		return a, problemf(http.StatusBadRequest, "fill must be none, null, previous, linear or a number, not %q", shorten(fill, 32))
	}
	if err := a.parseStep(step, tz); err != nil {
		return a, err
	}
	if err := a.query.Check(); err != nil {
		return a, err
	}
	return a, nil
}

// parseStep sets the grid: by a duration, or by a unit of the calendar in a time zone.
func (a *aggregation) parseStep(step, tz string) (err error) {
	a.step, err = parseStep(step)
	switch {
	case step == "" && tz == "":
		a.step = 0
		return nil
	case step == "":
		return problemf(http.StatusBadRequest, "tz needs a step of the calendar, such as step=day")
	case err == nil && tz != "":
		return problemf(http.StatusBadRequest, "with tz, step must be a unit of the calendar: minute, hour, day, week, month or year, not %q, which is the same in every time zone; for a day use step=day", shorten(step, 32))
	case err == nil:
		a.query.Grid, err = series.Fixed(a.step, 0)
		return err
	}
	if a.zone, err = time.LoadLocation(tz); err != nil || tz == "Local" {
		return problemf(http.StatusBadRequest, "tz must be the name of a time zone, such as Europe/Berlin, not %q", shorten(tz, 64))
	}
	a.unit = step
	if a.query.Grid, err = series.ParseGrid(step, 0, a.zone); err != nil || a.query.Grid.IsZero() {
		return problemf(http.StatusBadRequest, "step must be a duration of whole milliseconds, such as 500ms, 15m, 1h, 1d or 1w, or a unit of the calendar, such as day, week or 3month, not %q", shorten(step, 32))
	}
	return nil
}

// parseFuncs parses the list of aggregates.
func parseFuncs(text string) ([]series.Func, error) {
	var funcs []series.Func
	for name := range strings.SplitSeq(text, ",") {
		f, err := series.ParseFunc(strings.TrimSpace(name))
		if err != nil {
			return nil, problemf(http.StatusBadRequest, "agg must be a list of avg, min, max, sum, count, first, last, rate and percentiles such as p95, as in agg=avg,max, not %q", shorten(text, 64))
		}
		if !slices.Contains(funcs, f) {
			funcs = append(funcs, f)
		}
	}
	if len(funcs) > maxFuncs {
		return nil, problemf(http.StatusBadRequest, "agg must have at most %d functions, not %d", maxFuncs, len(funcs))
	}
	return funcs, nil
}

// wantsPercentiles reports whether an aggregate needs more than sums.
func (a *aggregation) wantsPercentiles() bool {
	return slices.ContainsFunc(a.query.Funcs, func(f series.Func) bool {
		name := string(f)
		return name[0] == 'p'
	})
}

// wantsBefore reports whether the value before the range is needed.
func (a *aggregation) wantsBefore() bool {
	return a.query.From > 0 && (slices.Contains(a.query.Funcs, series.Rate) || a.query.Fill.Mode == series.FillPrevious)
}

// historyReader reads histories and their aggregates.
type historyReader struct {
	runtime   *entity.Runtime
	retention *retention.Retainer
}

// bucketJSON is a step of time. Besides its members it has one for each aggregate: a
// number, or null where there is none.
type bucketJSON struct {
	// The start of the step.
	TS int64 `json:"ts" example:"1451649600000"`
	// Its end; absent if the step is a duration.
	End *int64 `json:"end,omitempty"`
}

// gridJSON says what the steps of an answer are.
type gridJSON struct {
	// The length of a step that is a duration.
	StepMS int64 `json:"step_ms,omitempty" example:"3600000"`
	// A step of the calendar.
	Step string `json:"step,omitempty"`
	// The time zone of such a step.
	TZ string `json:"tz,omitempty"`
}

// bucketPageJSON is aggregates of a key by steps of time.
type bucketPageJSON struct {
	Entity string `json:"entity" example:"room-1"`
	Key    string `json:"key" example:"temperature"`
	gridJSON
	// The rollups from which it was read, and raw for values; absent if it was read from values
	// alone.
	Source  []string     `json:"source,omitempty"`
	Buckets []bucketJSON `json:"buckets"`
}

// aggregate returns the aggregates of one series.
func (h *historyReader) aggregate(ctx context.Context, in *historyRequest, from, to int64) (*answer[historyJSON], error) {
	if name := in.paging(); name != "" || in.Points != nil {
		return nil, problemf(http.StatusBadRequest, "%s must not be given with agg: aggregates are ordered by time and come all at once", cmp.Or(name, "points"))
	}
	if in.Agg == nil {
		return nil, problemf(http.StatusBadRequest, "step, tz and fill need agg, as in agg=avg,max&step=1h")
	}
	a, err := aggregationParam(*in.Agg, some(in.Step), some(in.TZ), some(in.Fill), from, to)
	if err != nil {
		return nil, err
	}
	rd := h.open(ctx, &a)
	one, err := rd.plan(in.ID, in.Key)
	if err != nil {
		return nil, err
	}
	body := beginSeries(one.id, one.key)
	body = a.appendGrid(body, one.sources)
	body = append(body, `,"buckets":[`...)
	n := 0
	agg, err := series.NewAggregator(rd.query, func(b series.Bucket) error {
		body = a.appendBucket(appendComma(body, n), &b)
		n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := rd.feed(one, agg); err != nil {
		return nil, err
	}
	return encoded[historyJSON](append(body, "]}"...)), nil
}

// paging returns the name of a parameter in the request that is only for pages of values, or "".
func (in *historyRequest) paging() string {
	switch {
	case in.Limit != nil:
		return "limit"
	case in.Order != nil:
		return "order"
	case in.Cursor != nil:
		return "cursor"
	default:
		return ""
	}
}

// appendGrid appends the kind of the buckets, and the rollups that they come from.
func (a *aggregation) appendGrid(dst []byte, sources []series.Source) []byte {
	switch {
	case a.unit != "":
		dst = value.String(a.unit).AppendJSON(append(dst, `,"step":`...))
		dst = value.String(a.zone.String()).AppendJSON(append(dst, `,"tz":`...))
	case a.step != 0:
		dst = strconv.AppendInt(append(dst, `,"step_ms":`...), a.step.Milliseconds(), 10)
	}
	if !slices.ContainsFunc(sources, func(src series.Source) bool { return src.Step != 0 }) {
		return dst
	}
	dst = append(dst, `,"source":[`...)
	for i, src := range sources {
		name := "raw"
		if src.Step != 0 {
			name = src.Step.String()
		}
		dst = value.String(name).AppendJSON(appendComma(dst, i))
	}
	return append(dst, ']')
}

// appendBucket appends a bucket. If the step is fixed, it omits the end.
func (a *aggregation) appendBucket(dst []byte, b *series.Bucket) []byte {
	dst = strconv.AppendInt(append(dst, `{"ts":`...), max(b.Start, entity.MinTS), 10)
	if a.step == 0 {
		dst = strconv.AppendInt(append(dst, `,"end":`...), min(b.End, entity.MaxTS+1), 10)
	}
	for i, f := range a.query.Funcs {
		dst = append(append(append(dst, ',', '"'), f...), '"', ':')
		if f == series.Count {
			dst = strconv.AppendInt(dst, b.Count, 10)
			continue
		}
		dst = b.Values[i].AppendJSON(dst)
	}
	return append(dst, '}')
}

// seriesReader reads series of the history for one request.
type seriesReader struct {
	*historyReader
	ctx   context.Context //nolint:containedctx // of the question that it lives for
	ask   *aggregation
	query series.Query // of ask, with the range widened as needed
	left  int          // values that may still be read
}

func (h *historyReader) open(ctx context.Context, a *aggregation) *seriesReader {
	return &seriesReader{historyReader: h, ctx: ctx, ask: a, query: a.query, left: maxHistoryValues}
}

// seriesPlan says what a series is read from.
type seriesPlan struct {
	id, key string
	sources []series.Source
	kept    *retention.Series
}

// plan determines what a series is to be read from.
func (rd *seriesReader) plan(id, key string) (seriesPlan, error) {
	p := seriesPlan{id: id, key: key}
	err := cmp.Or(entity.CheckID(id), entity.CheckKey(key))
	if err != nil {
		return p, err
	}
	if p.kept, err = rd.retention.Series(rd.ctx, id, key); err != nil {
		return p, err
	}
	_, err = rd.find(&p)
	return p, err
}

// find determines the sources of a plan for the range of the reader's query, and widens the range
// to rows that overlap its ends. It reports whether it has widened it, so that previous plans do
// not cover the range.
func (rd *seriesReader) find(p *seriesPlan) (widened bool, err error) {
	to := rd.query.To
	if to == 0 {
		to = entity.MaxTS + 1
	}
	if p.sources, err = p.kept.Kept.Sources(rd.query.Grid, rd.query.From, to, rd.ask.wantsPercentiles()); err != nil {
		return false, err
	}
	if n := len(p.sources); n > 0 {
		from, to := p.sources[0].From, p.sources[n-1].To
		if from < rd.query.From {
			rd.query.From, widened = from, true
		}
		if rd.query.To != 0 && to > rd.query.To {
			rd.query.To, widened = to, true
		}
	}
	return widened, nil
}

// feed passes all data of a plan to an aggregator, and closes that. It returns an error if there are
// no data because there is no such entity.
func (rd *seriesReader) feed(p seriesPlan, a *series.Aggregator) error {
	if rd.ask.wantsBefore() {
		if err := rd.feedBefore(p, a); err != nil {
			return err
		}
	}
	found := false
	for _, src := range p.sources {
		if src.Step == 0 {
			if err := rd.feedValues(p.id, p.key, src.From, src.To, a, &found); err != nil {
				return err
			}
			continue
		}
		for row, err := range rd.retention.Rows(rd.ctx, p.kept, src.Step, src.Range) {
			if err == nil {
				err = rd.spend(1)
			}
			if err == nil {
				err = a.AddRow(row)
			}
			if err != nil {
				return err
			}
			found = true
		}
	}
	if !found {
		if _, _, err := rd.runtime.History(rd.ctx, entity.HistoryQuery{ID: p.id, Key: p.key, Limit: 1}); err != nil {
			return err
		}
	}
	return a.Close()
}

// feedValues passes the numbers of a series to an aggregator, and sets found if there are values. If a
// sealed block lies in a single bucket, it uses the block's header.
func (rd *seriesReader) feedValues(id, key string, from, to int64, a *series.Aggregator, found *bool) error {
	q := entity.HistoryQuery{ID: id, Key: key, From: from, To: min(to, entity.MaxTS+1)}
	return rd.runtime.ScanHistory(rd.ctx, q, func(c *entity.Chunk) error {
		*found = true
		if h := c.Header(); h != nil {
			switch {
			case h.Numbers == 0:
				return nil
			case h.Summary != nil && a.TakesWhole(h.First, h.Last):
				if err := rd.spend(1); err != nil {
					return err
				}
				return a.AddWhole(h.Summary)
			}
		}
		columns, err := c.Columns()
		if err == nil {
			err = rd.spend(columns.Len())
		}
		if err != nil {
			return err
		}
		return a.AddNumbers(series.Numbers{TS: columns.TS, Bits: columns.Bits, Kind: columns.Kind, Kinds: columns.Kinds})
	})
}

// feedBefore adds the last number before the range: of the values, or of the rows if those are
// deleted.
func (rd *seriesReader) feedBefore(p seriesPlan, a *series.Aggregator) error {
	q := entity.HistoryQuery{ID: p.id, Key: p.key, From: p.kept.Kept.Raw, To: rd.query.From, Limit: 16, Descending: true}
	for more := q.From < q.To; more; {
		page, next, err := rd.runtime.History(rd.ctx, q)
		if err == nil {
			err = rd.spend(len(page))
		}
		if err != nil {
			return err
		}
		for _, point := range page {
			if n := number(point.Value); !n.IsZero() {
				return a.Add(series.Point{TS: point.TS, Value: n})
			}
		}
		q.Cursor, q.Limit, more = next, historyPage, next != ""
	}
	last, ok, err := rd.retention.Last(rd.ctx, p.kept, rd.query.From)
	if err != nil || !ok {
		return err
	}
	return a.Add(last)
}

func (rd *seriesReader) spend(n int) error {
	if rd.left -= n; rd.left < 0 {
		return problemf(http.StatusUnprocessableEntity, "the answer needs more than %d values; ask for a shorter range or fewer entities, or keep a rollup (/v1/retention)", maxHistoryValues)
	}
	return nil
}

// errStopped ends a scan whose reader has stopped.
var errStopped = errors.New("the reader has stopped")

// points iterates over the numbers of a series.
func (rd *seriesReader) points(id, key string, from, to int64) iter.Seq2[series.Point, error] {
	return func(yield func(series.Point, error) bool) {
		q := entity.HistoryQuery{ID: id, Key: key, From: from, To: min(to, entity.MaxTS+1)}
		err := rd.runtime.ScanHistory(rd.ctx, q, func(c *entity.Chunk) error {
			if h := c.Header(); h != nil && h.Numbers == 0 {
				return nil
			}
			columns, err := c.Columns()
			if err == nil {
				err = rd.spend(columns.Len())
			}
			if err != nil {
				return err
			}
			for i, ts := range columns.TS {
				switch columns.KindAt(i) {
				case value.KindInt, value.KindFloat:
					if !yield(series.Point{TS: ts, Value: columns.Value(i)}, nil) {
						return errStopped
					}
				default: // not a number
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(series.Point{}, err)
		}
	}
}

// number returns a value if it is a number, and otherwise the zero Value.
func number(v value.Value) value.Value {
	if v.IsNumber() {
		return v
	}
	return value.Value{}
}

// downsample returns points that look like all of them in a chart.
func (h *historyReader) downsample(ctx context.Context, in *historyRequest, from, to int64) (*answer[historyJSON], error) {
	if name := in.paging(); name != "" {
		return nil, problemf(http.StatusBadRequest, "%s must not be given with points: the points are ordered by time and come all at once", name)
	}
	points, total, err := h.downsampled(ctx, in.ID, in.Key, from, to, *in.Points)
	if err != nil {
		return nil, err
	}
	body := beginSeries(in.ID, in.Key)
	body = strconv.AppendInt(append(body, `,"total":`...), int64(total), 10)
	return encoded[historyJSON](append(appendPoints(body, points), '}')), nil
}

func appendPoints(dst []byte, points []series.Point) []byte {
	dst = append(dst, `,"points":[`...)
	for i, p := range points {
		dst = appendPoint(appendComma(dst, i), p.TS, p.Value)
	}
	return append(dst, ']')
}

func appendPoint(dst []byte, ts int64, v value.Value) []byte {
	dst = strconv.AppendInt(append(dst, `{"ts":`...), ts, 10)
	return append(v.AppendJSON(append(dst, `,"value":`...)), '}')
}

// downsampleTries is how often the points are read again if their number has changed since they
// were counted.
const downsampleTries = 5

// downsampled counts the numbers of a series, and selects n of them.
func (h *historyReader) downsampled(ctx context.Context, id, key string, from, to int64, n int) (points []series.Point, total int, err error) {
	rd := h.open(ctx, &aggregation{})
	for range downsampleTries {
		if total, err = h.runtime.CountNumbers(ctx, id, key, from, to); err != nil {
			return nil, 0, err
		}
		points = points[:0]
		var failed error
		for p, err := range series.DownsampleEach(rd.points(id, key, from, to), total, n) {
			if failed = err; err != nil {
				break
			}
			points = append(points, p)
		}
		if !errors.Is(failed, series.ErrTotal) {
			return points, total, failed
		}
	}
	return nil, 0, problemf(http.StatusServiceUnavailable, "values of this range come in all the time; try again in a moment, or end the range before now")
}
