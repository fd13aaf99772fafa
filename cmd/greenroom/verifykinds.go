package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// until calls f with 0, 1, 2 … until it fails, as when the server is gone. It calls begun after
// each success.
func until(begun func(), f func(n int64) error) (t tally) {
	for {
		t.sent = t.acked + 1
		if t.err = f(t.acked); t.err != nil {
			return t
		}
		t.acked++
		begun()
	}
}

// putTypes replaces a type by versions whose maximum of n is 0, 1, 2 and so on.
func (v *verifier) putTypes(ctx context.Context, round int, begun func()) tally {
	return until(begun, func(n int64) error {
		condition := []string{"If-Match", "*"}
		if n == 0 {
			condition = []string{"If-None-Match", "*"}
		}
		body := fmt.Sprintf(`{"properties":{"n":{"type":"integer","max":%d}}}`, n)
		return v.child.client.do(ctx, "PUT", "/v1/types/"+verifyID(round, "type"), "application/json", body, nil, condition...)
	})
}

func (v *verifier) compareTypes(ctx context.Context, round int, l *load) (o outcome, err error) {
	var there struct {
		Properties map[string]struct{ Max int64 }
	}
	last := int64(-1)
	err = v.child.client.get(ctx, "/v1/types/"+verifyID(round, "type"), &there)
	if err == nil {
		last = there.Properties["n"].Max
	} else if !isMissing(err) {
		return o, err
	}
	return judgeLast(last, l.types), nil
}

// judgeLast compares the last number that is there, -1 for none, with what was acknowledged.
func judgeLast(last int64, t tally) outcome {
	return outcome{acknowledged: t.acked, lost: max(0, t.acked-1-last), invented: max(0, last-t.sent+1)}
}

// deleteEntities creates entities with a reading and a relation, and deletes them.
func (v *verifier) deleteEntities(ctx context.Context, round int, begun func()) tally {
	c := v.child.client
	return until(begun, func(n int64) error {
		id := goneID(round, n)
		if err := c.do(ctx, "POST", entityPath(id)+"/telemetry", "application/json", `{"ts":1,"values":{"gone":1}}`, nil); err != nil {
			return err
		}
		if err := c.do(ctx, "PUT", entityPath(verifyID(round, "edit-2"))+"/relations/to/"+id, "application/json", "{}", nil); err != nil {
			return err
		}
		return c.do(ctx, "DELETE", entityPath(id), "", "", nil)
	})
}

func goneID(round int, n int64) string { return verifyID(round, "gone-"+strconv.FormatInt(n, 10)) }

// compareDeletions looks for deleted data: the entities, the relations to them, and the history of
// entities that were created again.
func (v *verifier) compareDeletions(ctx context.Context, round int, l *load) (o outcome, err error) {
	o.acknowledged = l.deletions.acked
	for n := range l.deletions.acked {
		err := v.child.client.get(ctx, entityPath(goneID(round, n)), nil)
		if err == nil {
			o.lost++
		} else if !isMissing(err) {
			return o, err
		}
	}
	var page struct{ Relations []struct{ To string } }
	if err := v.child.client.get(ctx, entityPath(verifyID(round, "edit-2"))+"/relations?direction=out&type=to&limit=10000", &page); err != nil {
		return o, err
	}
	for _, r := range page.Relations {
		if r.To != goneID(round, l.deletions.acked) {
			o.invented++
		}
	}
	if l.deletions.acked == 0 {
		return o, nil
	}
	again := goneID(round, l.deletions.acked-1)
	if err := v.child.client.do(ctx, "POST", entityPath(again)+"/telemetry", "application/json", `{"ts":2,"values":{"gone":2}}`, nil); err != nil {
		return o, err
	}
	if points, err := v.points(ctx, again, "gone"); err != nil || len(points) != 1 {
		o.invented++
		return o, err
	}
	return o, nil
}

// keep writes readings of some days ago, which are rolled up.
func (v *verifier) keep(ctx context.Context, round int, begun func()) tally {
	const step = 7 * time.Minute
	first := time.Now().Add(-25 * 24 * time.Hour).UnixMilli()
	return until(begun, func(n int64) error {
		if n%50 == 0 {
			if err := v.child.client.do(ctx, "POST", "/v1/retention", "", "", nil); err != nil {
				return err
			}
		}
		body := fmt.Sprintf(`{"ts":%d,"values":{"kept":%d}}`, first+n*step.Milliseconds(), n)
		return v.child.client.do(ctx, "POST", entityPath(verifyID(round, "kept"))+"/telemetry", "application/json", body, nil)
	})
}

// compareRollups compares the values with what was written, and waits until the rollups agree with
// the values.
func (v *verifier) compareRollups(ctx context.Context, round int, l *load) (outcome, error) {
	id := verifyID(round, "kept")
	points, err := v.points(ctx, id, "kept")
	if isMissing(err) && l.kept.acked == 0 {
		return outcome{}, nil
	}
	if err != nil && !isMissing(err) {
		return outcome{}, err
	}
	there, sum := make([]int64, len(points)), int64(0)
	for i, p := range points {
		there[i] = p.Value
		sum += p.Value
	}
	o := judge(there, l.kept.sent, l.kept.acked)
	var wait settling
	for {
		if err := v.child.client.do(ctx, "POST", "/v1/retention", "", "", nil); err != nil {
			return o, err
		}
		var page struct {
			Source  []string
			Buckets []struct{ Count, Sum int64 }
		}
		if err := v.child.client.get(ctx, entityPath(id)+"/telemetry/kept?agg=count,sum&step=1h", &page); err != nil {
			return o, err
		}
		rows, rowsSum := 0, int64(0)
		for _, b := range page.Buckets {
			rows, rowsSum = rows+int(b.Count), rowsSum+b.Sum
		}
		if len(page.Source) > 0 && rows == len(points) && rowsSum == sum {
			return o, nil
		}
		if !wait.more(ctx, [2]int64{int64(rows), rowsSum}) {
			o.lost++
			return o, nil
		}
	}
}

// tags records the states of an entity that were seen, by entity tag. No two states may have the
// same tag.
type tags struct {
	client *client
	path   string
	shown  map[string]int64 // the last number of the log, -1 for none
	last   int64            // the newest one seen
	twice  int64
}

func newTags(c *client, id string) *tags {
	return &tags{client: c, path: entityPath(id) + "/attributes/attributes", shown: make(map[string]int64), last: -1}
}

// look reads the entity once.
func (t *tags) look(ctx context.Context) error {
	resp, err := t.client.send(ctx, http.MethodGet, t.path, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var doc struct{ Last *int64 }
	if err := decode(resp.Body, &doc); err != nil {
		return err
	}
	state := int64(-1)
	if doc.Last != nil {
		state = *doc.Last
	}
	tag := resp.Header.Get("ETag")
	if before, ok := t.shown[tag]; ok && before != state {
		t.twice++
	}
	t.shown[tag], t.last = state, state
	return nil
}

// compareTags looks for a state that was seen and is lost, and for tags that edits after the kill
// reuse for other states.
func (v *verifier) compareTags(ctx context.Context, _ int, l *load) (o outcome, err error) {
	t := l.tags
	t.client = v.child.client
	shown := t.last
	if err := t.look(ctx); err != nil {
		return o, err
	}
	o.acknowledged = int64(len(t.shown))
	if t.last < shown {
		o.lost++
	}
	for n := range int64(20) {
		body := fmt.Sprintf(`{"last":%d}`, 1_000_000+n)
		if err := t.client.do(ctx, "PATCH", t.path, "application/merge-patch+json", body, nil); err != nil {
			return o, err
		}
		if err := t.look(ctx); err != nil {
			return o, err
		}
	}
	o.doubled = t.twice
	return o, nil
}

// streamReader reads the changes of an entity, and resumes where it was interrupted.
type streamReader struct {
	entity string
	cursor string
	there  []int64 // the times of the readings
	reset  int64   // how often the server could not resume there
}

func newStreamReader(id string) *streamReader { return &streamReader{entity: id} }

// open opens the stream where it was interrupted.
func (r *streamReader) open(ctx context.Context, c *client) (io.ReadCloser, error) {
	path := "/v1/stream?entity=" + url.QueryEscape(r.entity)
	if r.cursor != "" {
		path += "&cursor=" + url.QueryEscape(r.cursor)
	}
	resp, err := c.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// read reads until enough returns true, or the stream ends, which is an error.
func (r *streamReader) read(body io.ReadCloser, enough func() bool) error {
	defer body.Close()
	return readEvents(body, func(id, name, data string) (bool, error) {
		switch name {
		case "change":
			var change struct {
				TS     int64
				Values map[string]int64
			}
			if err := decode(strings.NewReader(data), &change); err != nil {
				return false, err
			}
			r.there = append(r.there, change.TS)
		case "reset":
			r.reset++
		}
		if id != "" {
			r.cursor = id
		}
		return !enough(), nil
	})
}

// readEvents calls f for each complete event of a stream, until it returns false or an error.
func readEvents(body io.Reader, f func(id, name, data string) (bool, error)) error {
	lines := bufio.NewScanner(body)
	var id, name, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		case "":
			if lines.Text() != "" {
				continue // a comment
			}
			if more, err := f(id, name, data); !more || err != nil {
				return err
			}
			id, name, data = "", "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// compareStream resumes the stream, and compares its events with the history.
func (v *verifier) compareStream(ctx context.Context, _ int, l *load) (outcome, error) {
	r := l.stream
	points, err := v.points(ctx, r.entity, "n")
	if err != nil && !isMissing(err) {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyPatience)
	defer cancel()
	if enough := func() bool { return len(r.there) >= len(points) }; !enough() {
		body, err := r.open(ctx, v.child.client)
		if err != nil {
			return outcome{}, err
		}
		_ = r.read(body, enough) // what is missing is counted
	}
	n := int64(len(points))
	o := judge(r.there, n, n)
	o.invented += r.reset
	return o, nil
}
