package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

const (
	// verifyLatest is the latest time of a kill, after the first acknowledgement.
	verifyLatest = 1500 * time.Millisecond
	// verifyPatience bounds each wait in which nothing changes: a machine with much else to do is
	// slow, but it comes forward. verifyLongest bounds what is written in a round.
	verifyPatience = time.Minute
	verifyLongest  = 15 * time.Minute
	// verifyPoll is the interval of polling.
	verifyPoll    = 50 * time.Millisecond
	verifyEditors = 4
)

// verifier loads a server, kills it and compares.
type verifier struct {
	options verifyOptions
	place   scratch
	child   *child
	filled  string // the file that fills the disk, "" for none

	packings int64 // how often the whole history was packed beside the writers
}

// load contains what was written in a round.
type load struct {
	readings  []*loader
	patches   []tally
	relations tally
	types     tally
	deletions tally
	kept      tally
	tags      *tags
	stream    *streamReader
	mappings  tally
	trimmed   tally
	device    *device
	packings  tally
}

// tally counts the writes that were begun and acknowledged, one at a time, until an error.
type tally struct {
	sent, acked int64
	err         error
}

// round loads the server, kills it after a while, restarts it and compares.
func (v *verifier) round(ctx context.Context, round int, after time.Duration) (map[string]outcome, error) {
	if err := v.prepare(ctx, round); err != nil {
		return nil, err
	}
	l, err := v.loadAndKill(ctx, round, after)
	if err != nil {
		return nil, err
	}
	if v.child, err = startChild(ctx, v.place, "--seal-after", verifySealAfter.String()); err != nil {
		return nil, err
	}
	results := make(map[string]outcome)
	for kind, compare := range map[string]func(context.Context, int, *load) (outcome, error){
		"readings": v.compareReadings, "patches": v.comparePatches, "relations": v.compareRelations,
		"mapped values": v.compareMapped, "mapped sums": v.compareSums, "types": v.compareTypes,
		"deletions": v.compareDeletions, "rollups": v.compareRollups, "entity tags": v.compareTags, "streamed": v.compareStream,
		"sent again": v.compareSessions, "replaced mappings": v.compareReplaced, "trimmed": v.compareTrimmed,
	} {
		if results[kind], err = compare(ctx, round, l); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// prepare creates the entities that are edited, and the mappings: one for each reading of a source,
// and others over the latest values of groups selected by a pattern, a list and a relation, of
// telemetry and of attributes.
func (v *verifier) prepare(ctx context.Context, round int) error {
	for i := range verifyEditors {
		body := fmt.Sprintf(`{"id":%q,"attributes":{"log":[]}}`, verifyID(round, "edit-"+strconv.Itoa(i)))
		if err := v.child.client.do(ctx, "POST", "/v1/entities", "application/json", body, nil); err != nil {
			return err
		}
	}
	first, second := verifyID(round, "edit-0"), verifyID(round, "edit-1")
	for name, statement := range map[string]string{
		"mapped": fmt.Sprintf("insert into %s select %s.n * 2 as twice", verifyID(round, "mapped"), verifyID(round, "0")),
		"sums": fmt.Sprintf(`insert into %s select sum(m.n) as readings, sum(e@attributes.last) as patches, sum(r@attributes.last) as related
			from like '%s' as m, (%s, %s) as e, %s -> "0" as r`, verifyID(round, "sums"), strings.ReplaceAll(verifyID(round, ""), "_", `\\_`)+"%", first, second, first),
	} {
		if err := v.child.client.do(ctx, "PUT", "/v1/mappings/"+verifyID(round, name), "text/plain", statement, nil); err != nil {
			return err
		}
	}
	return nil
}

// loadAndKill writes until the server is killed.
func (v *verifier) loadAndKill(ctx context.Context, round int, after time.Duration) (*load, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyLongest)
	defer cancel()
	l := &load{patches: make([]tally, verifyEditors), tags: newTags(v.child.client, verifyID(round, "edit-3")), stream: newStreamReader(verifyID(round, "0"))}
	l.device = &device{id: verifyID(round, "device"), entity: verifyID(round, "session")}
	events, err := l.stream.open(ctx, v.child.client)
	if err != nil {
		return nil, err
	}
	begun := newBeginnings()
	first := begun.of("readings")
	run := &benchRun{
		link:         v.child.link,
		benchOptions: benchOptions{connections: v.options.connections, inFlight: 200, messages: benchMaxMessages, duration: verifyLongest},
		observe:      func(*loader, int64, time.Duration) { first() },
		message: func(c *loader) (topic, payload []byte) {
			n := strconv.FormatInt(c.count, 10)
			return []byte("e/" + verifyID(round, strconv.Itoa(c.index)) + "/telemetry"), []byte(`{"ts":` + n + `,"values":{"n":` + n + `}}`)
		},
	}
	var writers sync.WaitGroup
	writers.Go(func() { begun.ended("readings", run.run(ctx)) }) // it ends with the connections
	write := func(name string, into *tally, write func(begins func()) tally) {
		begins := begun.of(name)
		writers.Go(func() {
			*into = write(begins)
			begun.ended(name, into.err)
		})
	}
	for i := range verifyEditors {
		name := "edit-" + strconv.Itoa(i)
		write(name, &l.patches[i], func(begins func()) tally { return v.patch(ctx, verifyID(round, name), begins) })
	}
	for name, w := range map[string]struct {
		into  *tally
		write func(context.Context, int, func()) tally
	}{
		"relations": {&l.relations, v.relate}, "types": {&l.types, v.putTypes}, "deletions": {&l.deletions, v.deleteEntities},
		"rollups": {&l.kept, v.keep}, "replaced mappings": {&l.mappings, v.replaceMappings}, "trimmed": {&l.trimmed, v.trim},
	} {
		write(name, w.into, func(begins func()) tally { return w.write(ctx, round, begins) })
	}
	if round%2 == 1 { // in the others the server packs when it does
		writers.Go(func() { l.packings = v.pack(ctx) })
	}
	deviceBegins := begun.of("device")
	var deviceErr error
	writers.Go(func() {
		deviceErr = l.device.send(ctx, &v.child.link, deviceBegins)
		begun.ended("device", deviceErr)
	})
	writers.Go(func() {
		for l.tags.look(ctx) == nil { //nolint:revive // until one fails
		}
	})
	writers.Go(func() { _ = l.stream.read(events, func() bool { return false }) }) // it ends with the server
	if err := begun.await(ctx); err != nil {
		return nil, err
	}
	if err := v.wait(ctx, after); err != nil { // the random moment of the kill is the point of the test
		return nil, err
	}
	if err := v.child.kill(); err != nil {
		return nil, err
	}
	cancel()
	writers.Wait()
	if deviceErr != nil {
		return nil, deviceErr
	}
	if v.filled != "" {
		if err := v.restartOnFullDisk(ctx); err != nil {
			return nil, err
		}
	}
	l.readings = run.loaders
	v.packings += l.packings.acked
	return l, nil
}

// pack has the history packed again and again, so that the kill meets it.
func (v *verifier) pack(ctx context.Context) tally {
	return until(func() {}, func(int64) error {
		for {
			err := v.child.client.do(ctx, "POST", "/v1/compact", "", "", nil)
			if refused, ok := err.(*answerError); !ok || refused.status != http.StatusInsufficientStorage { //nolint:errorlint // of our own client, not wrapped
				return err
			}
			if err := pause.For(ctx, verifyPoll); err != nil { // the disk is full
				return err
			}
		}
	})
}

// patch appends 0, 1, 2 … to a list, and sets another attribute to the last number.
func (v *verifier) patch(ctx context.Context, id string, begun func()) tally {
	return until(begun, func(n int64) error {
		body := fmt.Sprintf(`[{"op":"add","path":"/log/-","value":%d},{"op":"add","path":"/last","value":%d}]`, n, n)
		return v.child.client.do(ctx, "PATCH", entityPath(id)+"/attributes/attributes", "application/json-patch+json", body, nil)
	})
}

// relate puts relations of the types 0, 1, 2 and so on.
func (v *verifier) relate(ctx context.Context, round int, begun func()) tally {
	from, to := verifyID(round, "edit-0"), verifyID(round, "edit-1")
	return until(begun, func(n int64) error {
		path := entityPath(from) + "/relations/" + strconv.FormatInt(n, 10) + "/" + url.PathEscape(to)
		return v.child.client.do(ctx, "PUT", path, "application/json", `{"n":`+strconv.FormatInt(n, 10)+`}`, nil)
	})
}

// judge compares the numbers that are there with those that were written, from 0 on.
func judge(there []int64, sent, acked int64) (o outcome) {
	o.acknowledged = acked
	seen := make(map[int64]bool, len(there))
	for _, n := range there {
		switch {
		case n < 0 || n >= sent:
			o.invented++
		case seen[n]:
			o.doubled++
		}
		seen[n] = true
	}
	for n := range acked {
		if !seen[n] {
			o.lost++
		}
	}
	return o
}

// storedPoint is a number in a history.
type storedPoint struct{ TS, Value int64 }

// points reads the whole history of a key.
func (v *verifier) points(ctx context.Context, id, key string) (list []storedPoint, err error) {
	for cursor := ""; ; {
		var page struct {
			Points []storedPoint
			Next   string
		}
		err := v.child.client.get(ctx, entityPath(id)+"/telemetry/"+key+"?limit=100000&cursor="+url.QueryEscape(cursor), &page)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Points...)
		if cursor = page.Next; cursor == "" {
			return list, nil
		}
	}
}

func (v *verifier) compareReadings(ctx context.Context, round int, l *load) (all outcome, err error) {
	for _, c := range l.readings {
		acked := c.acked.Load()
		points, err := v.points(ctx, verifyID(round, strconv.Itoa(c.index)), "n")
		if isMissing(err) && acked == 0 {
			continue // nothing of it has arrived
		}
		if err != nil && !isMissing(err) {
			return all, err
		}
		there := make([]int64, len(points))
		for i, p := range points {
			if there[i] = p.TS; p.TS != p.Value {
				all.invented++
			}
		}
		all.add(judge(there, c.count+1, acked))
	}
	return all, nil
}

func (v *verifier) comparePatches(ctx context.Context, round int, l *load) (all outcome, err error) {
	for i, t := range l.patches {
		var doc struct{ Log []int64 }
		if err := v.child.client.get(ctx, entityPath(verifyID(round, "edit-"+strconv.Itoa(i)))+"/attributes/attributes", &doc); err != nil {
			return all, err
		}
		all.add(judge(doc.Log, t.sent, t.acked))
	}
	return all, nil
}

func (v *verifier) compareRelations(ctx context.Context, round int, l *load) (outcome, error) {
	var there []int64
	for cursor := ""; ; {
		var page struct {
			Relations []struct {
				Type       string
				Properties struct{ N json.Number }
			}
			Next string
		}
		path := entityPath(verifyID(round, "edit-0")) + "/relations?direction=out&limit=10000&cursor=" + url.QueryEscape(cursor)
		if err := v.child.client.get(ctx, path, &page); err != nil {
			return outcome{}, err
		}
		for _, r := range page.Relations {
			n, err := strconv.ParseInt(r.Type, 10, 64)
			if err != nil || r.Properties.N.String() != r.Type {
				n = -1 // it was never put
			}
			there = append(there, n)
		}
		if cursor = page.Next; cursor == "" {
			return judge(there, l.relations.sent, l.relations.acked), nil
		}
	}
}

// compareMapped waits until the mapping has caught up, and compares its output with the source:
// each value doubled, and exactly once.
func (v *verifier) compareMapped(ctx context.Context, round int, _ *load) (outcome, error) {
	source, err := v.points(ctx, verifyID(round, "0"), "n")
	if isMissing(err) {
		return outcome{}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	var wait settling
	for {
		mapped, err := v.points(ctx, verifyID(round, "mapped"), "twice")
		if err != nil && !isMissing(err) {
			return outcome{}, err
		}
		there, wrong := make([]int64, len(mapped)), int64(0)
		for i, p := range mapped {
			if there[i] = p.TS; p.Value != 2*p.TS {
				wrong++
			}
		}
		n := int64(len(source))
		o := judge(there, n, n)
		o.invented += wrong
		if !o.wrong() || !wait.more(ctx, o) {
			return o, nil
		}
	}
}

// compareSums waits until the mappings over groups have caught up, and compares their values with
// those of the members.
func (v *verifier) compareSums(ctx context.Context, round int, l *load) (o outcome, err error) {
	want := make(map[string]int64)
	for _, c := range l.readings {
		if n, ok, err := v.latest(ctx, verifyID(round, strconv.Itoa(c.index)), "n"); err != nil {
			return o, err
		} else if ok {
			want["readings"] += n
		}
	}
	for i, edited := range []string{"edit-0", "edit-1"} {
		var doc struct{ Last *int64 }
		if err := v.child.client.get(ctx, entityPath(verifyID(round, edited))+"/attributes/attributes", &doc); err != nil {
			return o, err
		}
		if doc.Last == nil {
			continue // its first patch was not committed
		}
		want["patches"] += *doc.Last
		if i == 1 && l.relations.acked > 0 {
			want["related"] += *doc.Last
		}
	}
	o.acknowledged = int64(len(want))
	var wait settling
	for {
		o.lost = 0
		var sums [3]int64
		for i, key := range []string{"patches", "readings", "related"} {
			sum, wanted := want[key]
			if !wanted {
				continue
			}
			got, ok, err := v.latest(ctx, verifyID(round, "sums"), key)
			if err != nil {
				return o, err
			}
			if sums[i] = got; !ok || got != sum {
				o.lost++
			}
		}
		if o.lost == 0 || !wait.more(ctx, sums) {
			return o, nil
		}
	}
}

// latest returns the newest value of a key, and whether there is one.
func (v *verifier) latest(ctx context.Context, id, key string) (n int64, ok bool, err error) {
	var e struct{ Latest map[string]storedPoint }
	err = v.child.client.get(ctx, entityPath(id), &e)
	if isMissing(err) {
		return 0, false, nil
	}
	p, ok := e.Latest[key]
	return p.Value, ok, err
}

// isMissing reports whether an error is a 404 response.
func isMissing(err error) bool {
	refused, ok := err.(*answerError) //nolint:errorlint // of our own client, not wrapped
	return ok && refused.status == 404
}
