package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// shape is a load whose figures can be compared with published ones; the ids are those of the
// design.
type shape struct {
	name, id, about string
	run             func(ctx context.Context, s *suite) error
}

var shapes = []shape{
	{"meters", "L1", "many meters of 3 keys: at two rates, then as many as possible", runMeters},
	{"million", "L2", "register --entities (default 1 000 000), load them, start again", runMillion},
	{"plc", "L3", "1 000 entities of 60 keys, then 20 of 301", runPLC},
	{"modify", "L4", "PATCH of one property over HTTP, with and without If-Match, and mixed with reads", runModify},
	{"skew", "L5", "the others' latency while one entity is flooded", runSkew},
	{"hot", "L6", "one entity as fast as possible", runHot},
	{"fan-in", "L7", "10 000 meters to 100 floors to one building, by mappings", runFanIn},
	{"chain", "L8", "chains of mappings of 1 to 64 steps", runChain},
	{"reconnect", "L9", "devices that connect at once, each with 100 buffered readings", runReconnect},
	{"history", "L11", "questions for a history, then stores", runHistory},
	{"search", "L12", "filters over --entities, a traversal of 3 000, and from a write to its being found", runSearch},
	{"fan-out", "L13", "1 000 event streams with filters", runFanOut},
	{"crash", "L14", "kill -9 again and again (see greenroom verify)", runCrash},
	{"secure", "L15", "with TLS and credentials beside without, and idle connections", runSecure},
	{"connects", "L20", "the others' latency beside 1 000 logins by password per second, and beside strangers", runConnects},
	{"hostile", "L16", "the others' latency beside clients that cost as much as they can", runHostile},
	{"stores", "L18", "the recording, beside InfluxDB 1 and VictoriaMetrics if they are installed", runStores},
	{"commands", "L17", "commands that are queued, and that devices answer", runCommands},
	{"alarms", "L19", "as many messages as possible, beside alarm rules and without", runAlarms},
}

// shapeNames returns the permitted values of --shape.
func shapeNames() string {
	names := make([]string, len(shapes))
	for i := range shapes {
		names[i] = shapes[i].name
	}
	return strings.Join(names, ", ")
}

// runShapes runs shapes, each on its own server and directory.
func runShapes(ctx context.Context, o benchOptions, stdout io.Writer) error {
	names := strings.Split(o.shape, ",")
	if o.shape == "all" {
		names = strings.Split(shapeNames(), ", ")
	}
	var chosen []shape
	for _, name := range names {
		i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name || strings.EqualFold(s.id, name) })
		if i < 0 {
			return usagef("--shape must be all, or a comma-separated list of %s, not %s", shapeNames(), name)
		}
		chosen = append(chosen, shapes[i])
	}
	for i := range chosen {
		fmt.Fprintf(stdout, "%s %s: %s\n", chosen[i].id, chosen[i].name, chosen[i].about)
		if err := runShape(ctx, &chosen[i], o, stdout); err != nil {
			return fmt.Errorf("shape %s: %w", chosen[i].name, err)
		}
	}
	return nil
}

func runShape(ctx context.Context, sh *shape, o benchOptions, stdout io.Writer) (err error) {
	place, err := newScratch(cmp.Or(o.data, "."), "", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.remove()) }()
	s := &suite{options: o, stdout: stdout, place: place}
	if s.child, err = startChild(ctx, place); err != nil {
		return err
	}
	defer func() { _ = s.child.kill() }() // it may have ended already
	return sh.run(ctx, s)
}

// suite is the server under load, with its measurements.
type suite struct {
	options benchOptions
	stdout  io.Writer
	place   scratch
	child   *child
	err     error // the first error of publish and workers, which then do nothing more
}

// entities returns --entities, or if that is not set the shape's default.
func (s *suite) entities(otherwise int) int {
	if s.options.entitiesSet {
		return s.options.entities
	}
	return otherwise
}

// publisher returns a run over MQTT.
func (s *suite) publisher(name string, entities int, message func(*loader) (topic, payload []byte)) *benchRun {
	o := s.options
	o.entities, o.connections = entities, min(o.connections, entities)
	return &benchRun{benchOptions: o, link: s.child.link, name: name, message: message}
}

// measured contains what the server did and used during a measurement.
type measured struct {
	what     string
	took     time.Duration
	messages int64
	others   int64 // other messages that the server accepted meanwhile
	values   float64
	latency  *latencies
	figures  figures // at the end
	cpu      float64 // seconds
	disk     int64   // increase in bytes
}

// figures reads the server's figures, unless an error has occurred.
func (s *suite) figures(ctx context.Context) (figures, error) {
	if s.err != nil {
		return figures{}, s.err
	}
	return s.child.figures(ctx)
}

// add adds another measurement of the same load.
func (m *measured) add(other *measured, latency *latencies) {
	m.latency.merge(latency)
	m.took += other.took
	m.messages += other.messages
	m.values += other.values
	m.cpu += other.cpu
	m.disk += other.disk
	m.figures = other.figures
}

// perSecond returns how many messages were accepted per second.
func (m *measured) perSecond() float64 { return float64(m.messages) / m.took.Seconds() }

// measure calls run, and measures what the server used meanwhile.
func (s *suite) measure(ctx context.Context, what string, latency *latencies, run func() (messages int64, err error)) (m measured, err error) {
	before, err := s.figures(ctx)
	if err != nil {
		return m, err
	}
	began := time.Now()
	n, err := run()
	m = measured{what: what, took: time.Since(began), messages: n, latency: latency}
	if err != nil {
		return m, err
	}
	if m.figures, err = s.child.figures(ctx); err != nil {
		return m, err
	}
	m.cpu, m.values, m.disk = m.figures.cpu-before.cpu, m.figures.values-before.values, m.figures.disk-before.disk
	return m, nil
}

// print prints a line of figures.
func (s *suite) print(m *measured, more string) {
	seconds := m.took.Seconds()
	fmt.Fprintf(s.stdout, "  %-26s %9.0f messages/s %9.0f values/s  p50 %-8v p99 %-8v p99.9 %-8v", m.what,
		float64(m.messages)/seconds, m.values/seconds, short(m.latency.quantile(0.5)), short(m.latency.quantile(0.99)), short(m.latency.quantile(0.999)))
	if m.messages > 0 {
		fmt.Fprintf(s.stdout, "  CPU %6.1f s/M messages", m.cpu/float64(m.messages+m.others)*1e6)
	}
	fmt.Fprintf(s.stdout, "  memory %4.0f MB", m.figures.rss/1e6)
	if m.values > 0 {
		fmt.Fprintf(s.stdout, "  disk %5.1f B/value", float64(m.disk)/m.values)
	}
	if more != "" {
		fmt.Fprintf(s.stdout, "  %s", more)
	}
	fmt.Fprintln(s.stdout)
}

// publish runs a publisher, and prints the result.
func (s *suite) publish(ctx context.Context, what string, r *benchRun) {
	m, err := s.measure(ctx, what, &r.latency, func() (int64, error) {
		err := r.run(ctx)
		return r.acked.Load(), err
	})
	if s.err = err; err == nil {
		m.took = r.took
		s.print(&m, "")
	}
}

// lossSample is how many entities are checked after a kill.
const lossSample = 200

// loss kills the server, restarts it, and counts the acknowledged messages of a run that are
// missing, for a sample of its entities. Each message of the run must have its own time.
func (s *suite) loss(ctx context.Context, r *benchRun, key string) error {
	if err := cmp.Or(s.err, s.child.kill()); err != nil {
		return err
	}
	began := time.Now()
	var err error
	if s.child, err = startChild(ctx, s.place); err != nil {
		return err
	}
	started := time.Since(began)
	expected := make(map[int]int64)
	step := max(1, r.entities/lossSample)
	for i, l := range r.loaders {
		for n := range l.acked.Load() {
			if e := r.entityOf(i, n); e%step == 0 {
				expected[e]++
			}
		}
	}
	var acked, lost int64
	for e, n := range expected {
		var page struct{ Buckets []struct{ Count int64 } }
		err := s.child.client.get(ctx, fmt.Sprintf("/v1/entities/bench-%d/telemetry/%s?agg=count", e, key), &page)
		if err != nil && !isMissing(err) {
			return err
		}
		there := int64(0)
		for _, b := range page.Buckets {
			there += b.Count
		}
		acked += n
		lost += max(0, n-there)
	}
	fmt.Fprintf(s.stdout, "  after kill -9: of %d acknowledged messages of %d entities %d lost; started again in %v\n", acked, len(expected), lost, started.Round(time.Millisecond))
	if lost > 0 {
		return errors.New("acknowledged messages were lost")
	}
	return nil
}
