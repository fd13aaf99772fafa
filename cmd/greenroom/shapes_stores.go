package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server"
)

// defaultRecording is what the stores are compared on: part of this repository.
const defaultRecording = "testdata/occupancy/occupancy-training.csv"

const (
	recordingRooms = 6         // entities that have the recording
	walkValues     = 125_000   // of the entity walk, one a second
	walkStart      = 1_446_336 // in 1000 s: November 2015
	batchReadings  = 1000      // of a request, and so of a commit
	askRounds      = 100       // how often each question is asked of each store, by turns
	askWarm        = 5         // how often before that
	smallLog       = 1 << 17   // bytes of a change log that has only its newest commits
	restPatience   = 2 * time.Minute
)

// reading is a reading of the data set that all stores get.
type reading struct {
	entity string
	ts     int64
	keys   []string
	values []string // as JSON, which are numbers
}

// tsStore is a time series store under comparison. It listens on the loopback interface.
type tsStore interface {
	name() string
	// durable says how a batch that is answered is on the disk.
	durable() string
	address() string
	// write returns the request that writes a batch.
	write(batch []reading) (path, media, body string)
	// ask returns the path of a question.
	ask(q question) (path string)
	// settle has the store put what it has where it is read from later.
	settle(ctx context.Context) error
	// rest has the store put everything where it stays, ends it, and returns how large it is.
	rest(ctx context.Context) (bytes int64, err error)
	// kill ends the store. It may have ended.
	kill()
}

// question is one of those that are compared: about a key of an entity, from <= time < to.
type question struct {
	what, entity, key string
	from, to          int64
	fold              string // avg or max
	step              int64  // of buckets, in milliseconds; 0 for none
	points            int    // for a chart; 0 for none
	last              int    // this many values; 0 for none
}

// runStores compares the store of this program with InfluxDB and VictoriaMetrics, as far as they are
// installed, on the recording.
func runStores(ctx context.Context, s *suite) (err error) {
	path := s.options.recording
	data, err := comparedReadings(path)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(s.stdout, "  other stores: not compared without the recording %s (--recording)\n", path)
		return nil
	}
	if err != nil {
		return err
	}
	var stores []tsStore
	var places []scratch
	defer func() {
		for _, st := range stores {
			st.kill()
		}
		for _, place := range places { // nobody writes there any more
			err = errors.Join(err, place.remove())
		}
	}()
	database := s.options.store // of ours alone
	for _, start := range []func(context.Context, scratch) (tsStore, error){startOurs, startInflux, startVictoria} {
		place, err := newScratch(cmp.Or(s.options.data, "."), database, "bench")
		if err != nil {
			return err
		}
		database = ""
		places = append(places, place)
		st, err := start(ctx, place)
		if missing := (*exec.Error)(nil); errors.As(err, &missing) {
			fmt.Fprintf(s.stdout, "  %s is not installed, and is not compared\n", missing.Name)
			continue
		}
		if err != nil {
			return err
		}
		stores = append(stores, st)
	}
	return compareStores(ctx, s.stdout, stores, data)
}

// comparedReadings reads a CSV of numbers as readings of some rooms, and adds a random walk.
func comparedReadings(path string) (data []reading, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := openTable(f, "", time.UTC)
	if err != nil {
		return nil, err
	}
	for {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("recording %s: %w", path, err)
		}
		r := reading{ts: row.ts}
		for i := range row.samples {
			if v := row.samples[i].Value; v.IsNumber() {
				r.keys, r.values = append(r.keys, row.samples[i].Key), append(r.values, v.String())
			}
		}
		for room := range recordingRooms {
			r.entity = "room-" + strconv.Itoa(room)
			data = append(data, r)
		}
	}
	rnd, at := rand.New(rand.NewPCG(1, 2)), 20.0
	for i := range int64(walkValues) {
		at += rnd.NormFloat64() / 10
		data = append(data, reading{"walk", walkStart*1_000_000 + i*1000, []string{"v"}, []string{strconv.FormatFloat(at, 'f', 2, 64)}})
	}
	return data, nil
}

// questions are what is asked about the data.
func questions(data []reading) []question {
	first, last := int64(math.MaxInt64), int64(0)
	for i := range data {
		if data[i].entity == "room-0" {
			first, last = min(first, data[i].ts), max(last, data[i].ts)
		}
	}
	const hour, minute = 3_600_000, 60_000
	walk, end := int64(walkStart*1_000_000), int64(walkStart*1_000_000+walkValues*1000)
	return []question{
		{what: "recording, hourly averages", entity: "room-0", key: "temperature", from: first / hour * hour, to: last + 1, fold: "avg", step: hour},
		{what: "1 entity, all, by hours", entity: "walk", key: "v", from: walk, to: end, fold: "avg", step: hour},
		{what: "1 entity, 1 hour, by minutes", entity: "walk", key: "v", from: walk + 5*hour, to: walk + 6*hour, fold: "max", step: minute},
		{what: "1 entity, all, 500 points", entity: "walk", key: "v", from: walk, to: end, points: 500},
		{what: "1 entity, last 100", entity: "walk", key: "v", from: walk, to: end, last: 100},
	}
}

// comparison is a line of the table.
type comparison struct {
	what    string
	figures []float64 // one of each store, NaN for none
	unit    string
}

// compareStores has each store take the data and answer the questions, by turns, and prints what
// that took.
func compareStores(ctx context.Context, out io.Writer, stores []tsStore, data []reading) error {
	values := 0
	for i := range data {
		values += len(data[i].values)
	}
	callers := make([]*caller, len(stores))
	for i, st := range stores {
		var err error
		if callers[i], err = newCaller(ctx, st.address()); err != nil {
			return err
		}
		defer callers[i].close()
	}
	took := make([]time.Duration, len(stores))
	for batch := range slices.Chunk(data, batchReadings) {
		for i, st := range stores {
			path, media, body := st.write(batch)
			began := time.Now()
			if err := callers[i].do("POST", path, media, body, nil); err != nil {
				return fmt.Errorf("%s: write: %w", st.name(), err)
			}
			took[i] += time.Since(began)
		}
	}
	lines := []comparison{{what: "values/s, " + strconv.Itoa(batchReadings) + " readings a request", unit: "%.0f"}}
	for i := range stores {
		lines[0].figures = append(lines[0].figures, float64(values)/took[i].Seconds())
	}
	for _, st := range stores {
		if err := st.settle(ctx); err != nil {
			return fmt.Errorf("%s: %w", st.name(), err)
		}
	}
	for _, q := range questions(data) {
		line := comparison{what: q.what + ", ms", unit: "%.2f"}
		medians, err := askAll(stores, callers, q)
		if err != nil {
			return err
		}
		for _, m := range medians {
			line.figures = append(line.figures, float64(m)/float64(time.Millisecond))
		}
		lines = append(lines, line)
	}
	size := comparison{what: "bytes a value at rest, all included", unit: "%.2f"}
	for _, st := range stores {
		n, err := st.rest(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", st.name(), err)
		}
		size.figures = append(size.figures, float64(n)/float64(values))
	}
	fmt.Fprintf(out, "  beside other stores: %d values, the recording of %d rooms and a walk of %d values; medians of %d questions by turns, ratios to %s\n",
		values, recordingRooms, walkValues, askRounds, stores[0].name())
	return printComparison(out, stores, append([]comparison{size}, lines...))
}

// askAll asks each store a question, by turns, and returns the medians.
func askAll(stores []tsStore, callers []*caller, q question) ([]time.Duration, error) {
	took := make([][]time.Duration, len(stores))
	for round := range askWarm + askRounds {
		for i, st := range stores {
			path := st.ask(q)
			began := time.Now()
			if err := callers[i].get(path, nil); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", st.name(), q.what, err)
			}
			if d := time.Since(began); round >= askWarm {
				took[i] = append(took[i], d)
			}
		}
	}
	medians := make([]time.Duration, len(stores))
	for i := range took {
		slices.Sort(took[i])
		medians[i] = took[i][len(took[i])/2]
	}
	return medians, nil
}

func printComparison(out io.Writer, stores []tsStore, lines []comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "  ")
	for _, st := range stores {
		fmt.Fprintf(w, "\t%s", st.name())
	}
	fmt.Fprintln(w)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s", line.what)
		for i, f := range line.figures {
			fmt.Fprintf(w, "\t"+line.unit, f)
			if i > 0 {
				fmt.Fprintf(w, " (%.2f)", f/line.figures[0])
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "  a request that is answered")
	for _, st := range stores {
		fmt.Fprintf(w, "\t%s", st.durable())
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "  500 points are picked from the values in greenroom (LTTB); the others have means instead")
	return err
}

// ours is the store of this program.
type ours struct {
	*child
	place scratch
	gone  bool
}

func startOurs(ctx context.Context, place scratch) (tsStore, error) {
	c, err := startChild(ctx, place, "--seal-after", "1s", "--change-log-age", "1s")
	if err != nil {
		return nil, err
	}
	return &ours{child: c, place: place}, nil
}

func (o *ours) name() string {
	if o.place.dir == "" {
		return "greenroom on PostgreSQL"
	}
	return "greenroom"
}

func (o *ours) durable() string { return "is synced" }
func (o *ours) address() string { return o.http }

func (o *ours) write(batch []reading) (path, media, body string) {
	var b strings.Builder
	for i := range batch {
		r := &batch[i]
		fmt.Fprintf(&b, `{"entity":"%s","ts":%d,"values":{`, r.entity, r.ts)
		for j := range r.keys {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%s":%s`, r.keys[j], r.values[j])
		}
		b.WriteString("}}\n")
	}
	return "/v1/import?what=history", "application/x-ndjson", b.String()
}

func (o *ours) ask(q question) string {
	path := fmt.Sprintf("%s/telemetry/%s?from=%d&to=%d", entityPath(q.entity), q.key, q.from, q.to)
	switch {
	case q.last > 0:
		return path + fmt.Sprintf("&limit=%d&order=desc", q.last)
	case q.points > 0:
		return path + fmt.Sprintf("&points=%d", q.points)
	}
	return path + fmt.Sprintf("&agg=%s&step=%dms", q.fold, q.step)
}

// settle packs the history, as the server does by itself ten minutes later.
func (o *ours) settle(ctx context.Context) error {
	return o.client.do(ctx, "POST", "/v1/compact", "", "", nil)
}

// rest ends the server, drops what is old from the change log, and compacts the store.
func (o *ours) rest(ctx context.Context) (int64, error) {
	if err := o.settle(ctx); err != nil {
		return 0, err
	}
	for began := time.Now(); ; { // an hour later, with the age that is usual
		u, err := server.ReadUsage(ctx, o.place.store)
		if err != nil {
			return 0, err
		}
		if u.Log < smallLog {
			break
		}
		if time.Since(began) > restPatience {
			return 0, fmt.Errorf("the change log still has %d bytes", u.Log)
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	o.kill()
	_, after, err := server.Compact(ctx, o.place.store, slog.New(slog.DiscardHandler))
	if err != nil || o.place.dir == "" {
		return after.File, err // of the schema: its tables and indexes
	}
	return diskUsed(o.place.dir)
}

func (o *ours) kill() {
	if !o.gone {
		o.gone = true
		_ = o.child.kill() // it may be gone already
	}
}

// foreign is a store in a process of another project.
type foreign struct {
	addr, dir string
	parts     []string // of dir, which are its size
	cmd       *exec.Cmd
	ended     chan struct{}
	stderr    tail
}

// startForeign starts a program, whose arguments and environment may have the address, and waits
// until a path answers.
func startForeign(ctx context.Context, program, dir, ready string, setup func(f *foreign)) (*foreign, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	f := &foreign{dir: dir, parts: []string{dir}, ended: make(chan struct{})}
	if f.addr, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	f.cmd = exec.CommandContext(ctx, path)
	f.cmd.Stderr = &f.stderr
	setup(f)
	if err := f.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		defer close(f.ended)
		_ = f.cmd.Wait() // it was killed, or its log says why
	}()
	for began := time.Now(); ; {
		c, err := newCaller(ctx, f.addr)
		if err == nil {
			err = c.get(ready, nil)
			c.close()
		}
		if err == nil {
			return f, nil
		}
		if time.Since(began) > restPatience {
			f.kill()
			return nil, fmt.Errorf("%s does not answer: %w", program, err)
		}
		select {
		case <-f.ended:
			return nil, fmt.Errorf("%s did not start: %s", program, &f.stderr)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freeAddress returns an address of the loopback interface on which nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (f *foreign) address() string { return f.addr }

func (f *foreign) kill() {
	_ = f.cmd.Process.Kill() // it may be gone already
	<-f.ended
}

// end ends the process in good order.
func (f *foreign) end(ctx context.Context) error {
	if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(restPatience):
		return fmt.Errorf("it has not ended after %v", restPatience)
	}
}

// lines are the readings in InfluxDB's line protocol, which both others take.
func lines(batch []reading) string {
	var b bytes.Buffer
	for i := range batch {
		r := &batch[i]
		fmt.Fprintf(&b, "bench,entity=%s ", r.entity)
		for j := range r.keys {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%s=%s", r.keys[j], r.values[j])
		}
		fmt.Fprintf(&b, " %d\n", r.ts)
	}
	return b.String()
}

// influx is InfluxDB 1.
type influx struct{ *foreign }

func startInflux(ctx context.Context, place scratch) (tsStore, error) {
	dir := place.dir
	rpc, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	f, err := startForeign(ctx, "influxd", dir, "/ping", func(f *foreign) {
		f.cmd.Args = append(f.cmd.Args, "run", "-config", os.DevNull)
		// Without _series: 32 MB of files with holes, whatever there is.
		f.parts = []string{filepath.Join(dir, "data", "bench", "autogen"), filepath.Join(dir, "wal")}
		f.cmd.Env = append(os.Environ(),
			"INFLUXDB_REPORTING_DISABLED=true", "INFLUXDB_BIND_ADDRESS="+rpc, "INFLUXDB_HTTP_BIND_ADDRESS="+f.addr,
			"INFLUXDB_META_DIR="+filepath.Join(dir, "meta"), "INFLUXDB_DATA_DIR="+filepath.Join(dir, "data"), "INFLUXDB_DATA_WAL_DIR="+filepath.Join(dir, "wal"),
			"INFLUXDB_DATA_QUERY_LOG_ENABLED=false", "INFLUXDB_HTTP_LOG_ENABLED=false", "INFLUXDB_MONITOR_STORE_ENABLED=false",
			// At rest after a second, and not after four hours.
			"INFLUXDB_DATA_CACHE_SNAPSHOT_WRITE_COLD_DURATION=1s", "INFLUXDB_DATA_COMPACT_FULL_WRITE_COLD_DURATION=1s")
	})
	if err != nil {
		return nil, err
	}
	c, err := newCaller(ctx, f.addr)
	if err == nil {
		err = c.do("POST", "/query?q="+url.QueryEscape("CREATE DATABASE bench"), "", "", nil)
		c.close()
	}
	if err != nil {
		f.kill()
		return nil, fmt.Errorf("influxd: %w", err)
	}
	return &influx{f}, nil
}

func (i *influx) name() string    { return "InfluxDB 1" }
func (i *influx) durable() string { return "is synced" }

func (i *influx) write(batch []reading) (path, media, body string) {
	return "/write?db=bench&precision=ms", "text/plain", lines(batch)
}

func (i *influx) ask(q question) string {
	where := fmt.Sprintf(`FROM bench WHERE entity='%s' AND time >= %dms AND time < %dms`, q.entity, q.from, q.to)
	var text string
	switch {
	case q.last > 0:
		text = fmt.Sprintf(`SELECT "%s" %s ORDER BY time DESC LIMIT %d`, q.key, where, q.last)
	case q.points > 0: // it has no other way to thin out a chart
		text = fmt.Sprintf(`SELECT mean("%s") %s GROUP BY time(%dms)`, q.key, where, (q.to-q.from)/int64(q.points))
	default:
		text = fmt.Sprintf(`SELECT %s("%s") %s GROUP BY time(%dms)`, map[string]string{"avg": "mean", "max": "max"}[q.fold], q.key, where, q.step)
	}
	return "/query?db=bench&epoch=ms&q=" + url.QueryEscape(text)
}

func (i *influx) settle(ctx context.Context) error {
	return i.still(ctx)
}

func (i *influx) rest(ctx context.Context) (int64, error) { return i.endStill(ctx) }

// victoria is VictoriaMetrics.
type victoria struct{ *foreign }

func startVictoria(ctx context.Context, place scratch) (tsStore, error) {
	dir := place.dir
	f, err := startForeign(ctx, "victoria-metrics", dir, "/health", func(f *foreign) {
		f.cmd.Args = append(f.cmd.Args, "-storageDataPath="+filepath.Join(dir, "data"), "-httpListenAddr="+f.addr, "-retentionPeriod=100y",
			"-search.disableCache", "-search.latencyOffset=0s", "-search.maxPointsPerTimeseries=1000000")
	})
	if err != nil {
		return nil, err
	}
	return &victoria{f}, nil
}

func (v *victoria) name() string    { return "VictoriaMetrics" }
func (v *victoria) durable() string { return "is in memory for seconds" }

func (v *victoria) write(batch []reading) (path, media, body string) {
	return "/write?precision=ms", "text/plain", lines(batch)
}

func (v *victoria) ask(q question) string {
	series := fmt.Sprintf(`bench_%s{entity="%s"}`, q.key, q.entity)
	if q.last > 0 { // it has only ranges: the last that has so many, at one a second
		return fmt.Sprintf("/api/v1/export?match[]=%s&start=%d&end=%d", url.QueryEscape(series), q.to-int64(q.last)*1000, q.to-1)
	}
	step, fold := q.step, q.fold
	if q.points > 0 { // it has no other way to thin out a chart
		step, fold = (q.to-q.from)/int64(q.points), "avg"
	}
	// The bucket of a time ends there.
	query := fmt.Sprintf("%s_over_time(%s[%dms])", fold, series, step)
	return fmt.Sprintf("/api/v1/query_range?query=%s&start=%.3f&end=%.3f&step=%dms&nocache=1", url.QueryEscape(query),
		float64(q.from+step)/1000, float64(q.to+step-1)/1000, step)
}

func (v *victoria) settle(ctx context.Context) error {
	c, err := newCaller(ctx, v.addr)
	if err != nil {
		return err
	}
	defer c.close()
	for _, path := range []string{"/internal/force_flush", "/internal/force_merge"} {
		if err := c.get(path, nil); err != nil {
			return err
		}
	}
	return v.still(ctx)
}

func (v *victoria) rest(ctx context.Context) (int64, error) { return v.endStill(ctx) }

// still waits until the size of a store stops changing, at most restPatience.
func (f *foreign) still(ctx context.Context) error {
	const still = 25 // times a fifth of a second
	var size int64
	for same, began := 0, time.Now(); same < still && time.Since(began) < restPatience; {
		n, err := f.used()
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a file that was just merged
			return err
		}
		if same++; n != size {
			size, same = n, 0
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// endStill ends a store whose size does not change any more, and returns it.
func (f *foreign) endStill(ctx context.Context) (int64, error) {
	if err := f.still(ctx); err != nil {
		return 0, err
	}
	if err := f.end(ctx); err != nil {
		return 0, err
	}
	return f.used()
}

// used returns the size of a store.
func (f *foreign) used() (n int64, err error) {
	for _, part := range f.parts {
		some, failed := diskUsed(part)
		n, err = n+some, errors.Join(err, failed)
	}
	return n, err
}
