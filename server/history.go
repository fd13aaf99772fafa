package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/series"
)

// Limits of questions for a history.
const (
	// maxHistoryValues bounds the values and rows that one question reads.
	maxHistoryValues = 20_000_000
	// maxDownsampled bounds the parameter points.
	maxDownsampled = 10_000
	// maxFuncs bounds what is made of each bucket.
	maxFuncs = 32

	historyPage = 20_000
)

// aggregation is what is to be made of series: the part of a question that is the
// same for one and for many.
type aggregation struct {
	query series.Query
	step  time.Duration  // of a fixed grid
	unit  string         // of a grid of the calendar
	zone  *time.Location // of the latter
}

// aggregationParam reads agg, step, tz and fill.
func aggregationParam(agg, step, tz, fill string, from, to int64) (aggregation, error) {
	a := aggregation{query: series.Query{From: from, MaxBuckets: entity.MaxBuckets}}
	if to <= entity.MaxTS {
		a.query.To = to
	}
	var err error
	if a.query.Funcs, err = parseFuncs(agg); err != nil {
		return a, err
	}
	if a.query.Fill, err = series.ParseFill(fill); err != nil {
		return a, problemf(http.StatusBadRequest, "fill=%s is not possible; none, null, previous, linear or a number is right", shorten(fill, 32))
	}
	if err := a.parseStep(step, tz); err != nil {
		return a, err
	}
	if err := a.query.Check(); err != nil {
		return a, err
	}
	return a, nil
}

// parseStep makes the grid: of a duration, or of a unit of the calendar in a zone.
func (a *aggregation) parseStep(step, tz string) (err error) {
	a.step, err = parseStep(step)
	switch {
	case step == "" && tz == "":
		a.step = 0
		return nil
	case step == "":
		return problemf(http.StatusBadRequest, "tz goes with a step of the calendar, such as step=day")
	case err == nil && tz != "":
		return problemf(http.StatusBadRequest, "step=%s is the same in every time zone; with tz a unit of the calendar is right: minute, hour, day, week, month or year, as in step=day", shorten(step, 32))
	case err == nil:
		a.query.Grid, err = series.Fixed(a.step, 0)
		return err
	}
	if a.zone, err = time.LoadLocation(tz); err != nil || tz == "Local" {
		return problemf(http.StatusBadRequest, "tz=%s is no time zone; a name such as Europe/Berlin is right", shorten(tz, 64))
	}
	a.unit = step
	if a.query.Grid, err = series.ParseGrid(step, 0, a.zone); err != nil || a.query.Grid.IsZero() {
		return problemf(http.StatusBadRequest, "step=%s is not possible; a duration of whole milliseconds such as 500ms, 15m, 1h, 1d or 1w, or a unit of the calendar such as day, week or 3month, is right", shorten(step, 32))
	}
	return nil
}

// parseFuncs reads the list of aggregates.
func parseFuncs(text string) ([]series.Func, error) {
	var funcs []series.Func
	for name := range strings.SplitSeq(text, ",") {
		f, err := series.ParseFunc(strings.TrimSpace(name))
		if err != nil {
			return nil, problemf(http.StatusBadRequest, "agg=%s is not possible; a list of avg, min, max, sum, count, first, last, rate and percentiles such as p95 is right, as in agg=avg,max", shorten(text, 64))
		}
		if !slices.Contains(funcs, f) {
			funcs = append(funcs, f)
		}
	}
	if len(funcs) > maxFuncs {
		return nil, problemf(http.StatusBadRequest, "agg has %d functions; at most %d are allowed", len(funcs), maxFuncs)
	}
	return funcs, nil
}

// wantsPercentiles tells whether an aggregate needs more than sums.
func (a *aggregation) wantsPercentiles() bool {
	return slices.ContainsFunc(a.query.Funcs, func(f series.Func) bool {
		name := string(f)
		return name[0] == 'p'
	})
}

// wantsBefore tells whether the value before the range counts.
func (a *aggregation) wantsBefore() bool {
	return a.query.From > 0 && (slices.Contains(a.query.Funcs, series.Rate) || a.query.Fill.Mode == series.FillPrevious)
}

// aggregate answers with the aggregates of one series.
func (s *Server) aggregate(w http.ResponseWriter, r *http.Request, q url.Values, from, to int64) error {
	for _, name := range []string{"limit", "order", "cursor", "points"} {
		if q.Has(name) {
			return problemf(http.StatusBadRequest, "%s does not go with agg; aggregates are ordered by time and come all at once", name)
		}
	}
	if !q.Has("agg") {
		return problemf(http.StatusBadRequest, "step, tz and fill go together with agg, as in agg=avg,max&step=1h")
	}
	a, err := aggregationParam(q.Get("agg"), q.Get("step"), q.Get("tz"), q.Get("fill"), from, to)
	if err != nil {
		return err
	}
	rd := s.newSeriesReader(r.Context(), &a)
	one, err := rd.plan(r.PathValue("id"), r.PathValue("key"))
	if err != nil {
		return err
	}
	body := appendSeries(nil, one.id, one.key)
	body = a.appendGrid(body, one.sources)
	body = append(body, `,"buckets":[`...)
	n := 0
	agg, err := series.NewAggregator(rd.query, func(b series.Bucket) error {
		body = a.appendBucket(appendComma(body, n), &b)
		n++
		return nil
	})
	if err != nil {
		return err
	}
	if err := rd.feed(one, agg); err != nil {
		return err
	}
	writeBody(w, append(body, "]}\n"...))
	return nil
}

// appendGrid appends what the buckets are, and from which rollups they come.
func (a *aggregation) appendGrid(dst []byte, sources []series.Source) []byte {
	switch {
	case a.unit != "":
		dst = entity.String(a.unit).AppendJSON(append(dst, `,"step":`...))
		dst = entity.String(a.zone.String()).AppendJSON(append(dst, `,"tz":`...))
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
		dst = entity.String(name).AppendJSON(appendComma(dst, i))
	}
	return append(dst, ']')
}

// appendBucket appends a bucket. That of a fixed step needs no end.
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

// seriesReader reads series of the history for one question.
type seriesReader struct {
	server *Server
	ctx    context.Context //nolint:containedctx // of the question that it lives for
	ask    *aggregation
	query  series.Query // of ask, with the range widened to what there is
	left   int          // values that may still be read
}

func (s *Server) newSeriesReader(ctx context.Context, a *aggregation) *seriesReader {
	return &seriesReader{server: s, ctx: ctx, ask: a, query: a.query, left: maxHistoryValues}
}

// seriesPlan says from where a series is read.
type seriesPlan struct {
	id, key string
	sources []series.Source
	kept    *retention.Series
}

// plan finds out from what a series is to be read, and widens the range of the
// reader's query to the rows that lie over its ends.
func (rd *seriesReader) plan(id, key string) (seriesPlan, error) {
	p := seriesPlan{id: id, key: key}
	// This also checks what was asked for.
	_, _, err := rd.server.runtime.History(rd.ctx, entity.HistoryQuery{ID: id, Key: key, Limit: 1})
	if err != nil {
		return p, err
	}
	kept, err := rd.server.retention.Series(rd.ctx, id, key)
	if err != nil {
		return p, err
	}
	p.kept = kept
	to := rd.ask.query.To
	if to == 0 {
		to = entity.MaxTS + 1
	}
	if p.sources, err = kept.Kept.Sources(rd.ask.query.Grid, rd.ask.query.From, to, rd.ask.wantsPercentiles()); err != nil {
		return p, err
	}
	if n := len(p.sources); n > 0 {
		rd.query.From = min(rd.query.From, p.sources[0].From)
		if rd.query.To != 0 {
			rd.query.To = max(rd.query.To, p.sources[n-1].To)
		}
	}
	return p, nil
}

// feed gives an aggregator all that a plan says, and closes it.
func (rd *seriesReader) feed(p seriesPlan, a *series.Aggregator) error {
	if rd.ask.wantsBefore() {
		if err := rd.feedBefore(p, a); err != nil {
			return err
		}
	}
	for _, src := range p.sources {
		if src.Step == 0 {
			for point, err := range rd.points(p.id, p.key, src.From, src.To) {
				if err == nil {
					err = a.Add(point)
				}
				if err != nil {
					return err
				}
			}
			continue
		}
		for row, err := range rd.server.retention.Rows(rd.ctx, p.kept, src.Step, src.Range) {
			if err == nil {
				err = rd.spend(1)
			}
			if err == nil {
				err = a.AddRow(row)
			}
			if err != nil {
				return err
			}
		}
	}
	return a.Close()
}

// feedBefore adds the last number before the range.
func (rd *seriesReader) feedBefore(p seriesPlan, a *series.Aggregator) error {
	q := entity.HistoryQuery{ID: p.id, Key: p.key, To: rd.query.From, Limit: 16, Descending: true}
	points, _, err := rd.server.runtime.History(rd.ctx, q)
	if err != nil {
		return err
	}
	for _, point := range points {
		if n := number(point.Value); !n.IsZero() {
			return a.Add(series.Point{TS: point.TS, Value: n})
		}
	}
	return nil
}

func (rd *seriesReader) spend(n int) error {
	if rd.left -= n; rd.left < 0 {
		return problemf(http.StatusUnprocessableEntity, "the answer would be made of more than %d values; a shorter range, fewer entities, or a rollup (/v1/retention) is right", maxHistoryValues)
	}
	return nil
}

// points reads the numbers of a series, page by page.
func (rd *seriesReader) points(id, key string, from, to int64) iter.Seq2[series.Point, error] {
	return func(yield func(series.Point, error) bool) {
		q := entity.HistoryQuery{ID: id, Key: key, From: from, To: min(to, entity.MaxTS+1), Limit: historyPage}
		for {
			page, next, err := rd.server.runtime.History(rd.ctx, q)
			if err == nil {
				err = rd.spend(len(page))
			}
			if err != nil {
				yield(series.Point{}, err)
				return
			}
			for _, point := range page {
				if n := number(point.Value); !n.IsZero() && !yield(series.Point{TS: point.TS, Value: n}, nil) {
					return
				}
			}
			if q.Cursor = next; next == "" {
				return
			}
		}
	}
}

// number is a value as package series has it, the zero Number for what is none.
func number(v entity.Value) series.Number {
	switch v.Kind() {
	case entity.KindFloat:
		return series.Float(v.Float())
	case entity.KindInt:
		return series.Int(v.Int())
	default:
		return series.Number{}
	}
}

// downsample answers with points that look like all of them in a chart.
func (s *Server) downsample(w http.ResponseWriter, r *http.Request, q url.Values, from, to int64) error {
	for _, name := range []string{"limit", "order", "cursor"} {
		if q.Has(name) {
			return problemf(http.StatusBadRequest, "%s does not go with points; the points are ordered by time and come all at once", name)
		}
	}
	n, err := strconv.Atoi(q.Get("points"))
	if err != nil || n < 2 || n > maxDownsampled {
		return problemf(http.StatusBadRequest, "points=%s is not possible; a whole number from 2 to %d is right", shorten(q.Get("points"), 32), maxDownsampled)
	}
	points, total, err := s.downsampled(r.Context(), r.PathValue("id"), r.PathValue("key"), from, to, n)
	if err != nil {
		return err
	}
	body := appendSeries(nil, r.PathValue("id"), r.PathValue("key"))
	body = strconv.AppendInt(append(body, `,"total":`...), int64(total), 10)
	writeBody(w, append(appendPoints(body, points), "}\n"...))
	return nil
}

func appendPoints(dst []byte, points []series.Point) []byte {
	dst = append(dst, `,"points":[`...)
	for i, p := range points {
		dst = strconv.AppendInt(append(appendComma(dst, i), `{"ts":`...), p.TS, 10)
		dst = append(p.Value.AppendJSON(append(dst, `,"value":`...)), '}')
	}
	return append(dst, ']')
}

// downsampleTries is how often the points are read again when there were others
// than were counted before.
const downsampleTries = 5

// countStep makes a count a few buckets.
const countStep = 100 * 365 * 24 * time.Hour

// downsampled counts the numbers of a series, and chooses n of them.
func (s *Server) downsampled(ctx context.Context, id, key string, from, to int64, n int) (points []series.Point, total int, err error) {
	rd := s.newSeriesReader(ctx, &aggregation{})
	for range downsampleTries {
		buckets, err := s.runtime.Aggregate(ctx, entity.AggregateQuery{
			ID: id, Key: key, From: from, To: to, Step: countStep, Funcs: []entity.AggregateFunc{entity.Count},
		})
		if err != nil {
			return nil, 0, err
		}
		total = 0
		for i := range buckets {
			total += int(buckets[i].Count)
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

// seriesProblem is the problem of an error of package series, nil for any other.
func seriesProblem(err error) *problem {
	switch {
	case errors.Is(err, series.ErrTooManyBuckets), errors.Is(err, series.ErrInvalid):
		return problemf(http.StatusBadRequest, "%v", err)
	case errors.Is(err, series.ErrTooFine), errors.Is(err, series.ErrNoPercentiles):
		return problemf(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, series.ErrCut):
		return problemf(http.StatusUnprocessableEntity, "%v; only rollups are kept of a part of the range, and the step or the ends of the range do not fit to them", err)
	default:
		return nil
	}
}
