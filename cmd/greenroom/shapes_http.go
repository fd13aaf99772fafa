package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// workers calls f on n goroutines, each with its own connection, until the duration is over, and
// measures the calls. Time spent on decoding responses is not counted.
func (s *suite) workers(ctx context.Context, what string, n int, f func(c *caller, worker, i int) error) {
	latency := &latencies{}
	limited, cancel := context.WithTimeout(ctx, s.options.duration)
	defer cancel()
	m, err := s.measure(ctx, what, latency, func() (int64, error) {
		var done atomic.Int64
		errs := make([]error, n)
		var wg sync.WaitGroup
		for w := range n {
			wg.Go(func() {
				var c *caller
				if c, errs[w] = newCaller(ctx, s.child.http); errs[w] != nil {
					return
				}
				defer c.close()
				for i := 0; limited.Err() == nil && errs[w] == nil; i++ {
					c.judging = 0
					began := time.Now()
					if errs[w] = f(c, w, i); errs[w] == nil {
						latency.add(time.Since(began) - c.judging)
						done.Add(1)
					}
				}
			})
		}
		wg.Wait()
		return done.Load(), errors.Join(errs...)
	})
	if s.err = err; err == nil {
		s.print(&m, "")
	}
}

// runModify patches a property over HTTP.
func runModify(ctx context.Context, s *suite) error {
	entities := s.entities(100_000)
	n := min(64, entities) // workers; each has its own entities
	register := s.publisher("modify", entities, meterMessage)
	register.goRound(1)
	if err := register.run(ctx); err != nil {
		return err
	}
	path := func(w, i int) string { return entityPath("bench-" + strconv.Itoa((w+i*n)%entities)) }
	patch := func(c *caller, w, i int) error {
		return c.do("PATCH", path(w, i)+"/attributes/desired", "application/merge-patch+json", `{"setpoint":`+strconv.Itoa(i)+`}`, nil)
	}
	s.workers(ctx, "PATCH", n, patch)
	// Each worker has one entity, whose version it knows from the previous response.
	tags := make([]string, n)
	s.workers(ctx, "PATCH with If-Match", n, func(c *caller, w, i int) error {
		header := []string{"If-Match", "*"}
		if tags[w] != "" {
			header[1] = `"` + tags[w] + `"`
		}
		var edited struct{ ETag string }
		err := c.do("PATCH", path(w, 0)+"/attributes/desired", "application/merge-patch+json", `{"setpoint":`+strconv.Itoa(i)+`}`, &edited, header...)
		tags[w] = edited.ETag
		return err
	})
	s.workers(ctx, "80 % reads, 20 % PATCH", n, func(c *caller, w, i int) error {
		if i%5 == 0 {
			return patch(c, w, i)
		}
		return c.get(path(w, i*7), &struct{}{})
	})
	s.workers(ctx, "read latest, 1 at a time", 1, func(c *caller, w, i int) error {
		return c.get(path(w, i)+"?fields=latest", &struct{}{})
	})
	return s.err
}

// chainID returns the id of a step of a chain; without a hyphen, it needs no quotes in a statement.
func chainID(depth, step int) string { return fmt.Sprintf("chain_%d_%d", depth, step) }

// runChain measures how long a value takes through chains of mappings.
func runChain(ctx context.Context, s *suite) error {
	c := s.child.client
	for _, depth := range []int{1, 4, 16, 64} {
		for step := range depth {
			statement := fmt.Sprintf("insert into %s select %s.v + 1 as v", chainID(depth, step+1), chainID(depth, step))
			if err := c.do(ctx, "PUT", "/v1/mappings/"+chainID(depth, step), "text/plain", statement, nil); err != nil {
				return err
			}
		}
		values, stop, err := s.follow(ctx, "entity="+chainID(depth, depth))
		if err != nil {
			return err
		}
		s.workers(ctx, fmt.Sprintf("%d steps", depth), 1, func(c *caller, _, i int) error {
			body := fmt.Sprintf(`{"v":%d}`, i)
			if err := c.do("POST", entityPath(chainID(depth, 0))+"/telemetry", "application/json", body, nil); err != nil {
				return err
			}
			want := fmt.Sprintf(`"v":%d`, i+depth)
			for {
				select {
				case event := <-values:
					if strings.Contains(event, want+"}") {
						return nil
					}
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(verifyPatience):
					return fmt.Errorf("the end of the chain has no %s", want)
				}
			}
		})
		stop()
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// follow opens an event stream, and returns the data of its events.
func (s *suite) follow(ctx context.Context, query string) (<-chan string, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := s.child.client.send(ctx, "GET", "/v1/stream?"+query, "", nil) //nolint:bodyclose // the goroutine does
	if err != nil {
		cancel()
		return nil, nil, err
	}
	events := make(chan string, 1024)
	go func() {
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			select {
			case events <- data:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events, cancel, nil
}

// runHistory makes the queries of charts and reports.
func runHistory(ctx context.Context, s *suite) error {
	const entities, points = 20, 50_000
	load := s.publisher("history", entities, func(l *loader) (topic, payload []byte) {
		at := l.shared.began.UnixMilli() - points*1000 + l.count/int64(max(1, entities/l.shared.connections))*1000
		return topicOf(l.shared.entityOf(l.index, l.count)), fmt.Appendf(nil, `{"ts":%d,"values":{"v":%d.25}}`, at, l.count%997)
	})
	load.goRound(points)
	s.publish(ctx, fmt.Sprintf("load %d values", entities*points), load)
	one := func(i int) string { return entityPath("bench-"+strconv.Itoa(i%entities)) + "/telemetry/v?" }
	from := load.began.UnixMilli() - points*1000
	hour := func(i int) string {
		at := from + int64(i%12)*3_600_000
		return fmt.Sprintf("&from=%d&to=%d", at, at+3_600_000)
	}
	for _, question := range []struct {
		what string
		path func(i int) string
	}{
		{"1 entity, 1 hour, by minutes", func(i int) string { return one(i) + "agg=max&step=1m" + hour(i) }},
		{"1 entity, all, by hours", func(i int) string { return one(i) + "agg=avg,min,max,p95&step=1h" }},
		{"1 entity, all, 500 points", func(i int) string { return one(i) + "points=500" }},
		{"1 entity, last 100", func(i int) string { return one(i) + "limit=100&order=desc" }},
	} {
		s.workers(ctx, question.what, 4, func(c *caller, w, i int) error { return c.get(question.path(w+4*i), &struct{}{}) })
	}
	s.workers(ctx, "8 entities, 1 hour, by minutes", 4, func(c *caller, w, i int) error {
		at := from + int64((w+i)%12)*3_600_000
		ids := make([]string, 8)
		for j := range ids {
			ids[j] = strconv.Quote("bench-" + strconv.Itoa((w+i+j)%entities))
		}
		body := fmt.Sprintf(`{"entities":[%s],"keys":["v"],"agg":["max"],"step":"1m","group_by":[],"from":%d,"to":%d}`, strings.Join(ids, ","), at, at+3_600_000)
		return c.do("POST", "/v1/history", "application/json", body, &struct{}{})
	})
	if s.err != nil {
		return s.err
	}
	return runStores(ctx, s)
}

// runSearch searches, traverses relations, and waits until writes are found.
func runSearch(ctx context.Context, s *suite) error {
	entities := s.entities(100_000)
	load := s.publisher("search", entities, meterMessage)
	load.goRound(1)
	s.publish(ctx, fmt.Sprintf("register %d", entities), load)
	const five = `temperature > 22 and humidity < 50 and battery between 60 and 90 and id like "bench-%7" and not exists attributes.retired`
	find := func(count string) func(c *caller, _, _ int) error {
		body := fmt.Sprintf(`{"filter":%q,"limit":50%s}`, five, count)
		return func(c *caller, _, _ int) error {
			return c.do("POST", "/v1/search", "application/json", body, &struct{}{})
		}
	}
	if s.err == nil {
		s.err = s.warm(ctx, find(`,"count":true`))
	}
	s.workers(ctx, "five conditions, a page", 1, find(""))
	s.workers(ctx, "five conditions, count all", 1, find(`,"count":true`))
	if s.err == nil {
		s.err = s.tree(ctx, 3000)
	}
	s.workers(ctx, "traversal of 3000", 1, func(c *caller, _, _ int) error {
		var reached struct{ Reached []struct{ ID string } }
		err := c.do("POST", "/v1/entities/tree-0/traverse", "application/json", `{"types":["has"]}`, &reached)
		if err == nil && len(reached.Reached) != 3000 {
			err = fmt.Errorf("%d were reached", len(reached.Reached))
		}
		return err
	})
	s.workers(ctx, "write, then find it", 1, func(c *caller, _, i int) error {
		id := "bench-" + strconv.Itoa(i%entities)
		if err := c.do("PATCH", entityPath(id)+"/attributes/attributes", "application/merge-patch+json", fmt.Sprintf(`{"mark":%d}`, i), nil); err != nil {
			return err
		}
		var page struct{ Entities []struct{ ID string } }
		err := c.get("/v1/entities?q="+url.QueryEscape(fmt.Sprintf(`id = %q and attributes.mark = %d`, id, i)), &page)
		if err == nil && len(page.Entities) != 1 {
			err = errors.New("the write is not found")
		}
		return err
	})
	return s.err
}

// atOnce is the latency of an answer that needs no index, because there are few entities.
const atOnce = 10 * time.Millisecond

// warm repeats a search until the index answers it. The index is built when first needed.
func (s *suite) warm(ctx context.Context, ask func(c *caller, _, _ int) error) error {
	c, err := newCaller(ctx, s.child.http)
	if err != nil {
		return err
	}
	defer c.close()
	var first time.Duration
	for began := time.Now(); time.Since(began) < verifyPatience; {
		asked := time.Now()
		err := ask(c, 0, 0)
		took := time.Since(asked)
		if first == 0 {
			first = took
		}
		var refused *answerError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		if err == nil && (took < first/5 || took < atOnce) {
			fmt.Fprintf(s.stdout, "  the first search took %v; the index was there after %v\n", first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			return nil
		}
	}
	fmt.Fprintf(s.stdout, "  the first search took %v; no other was much quicker in %v\n", first.Round(time.Millisecond), verifyPatience)
	return nil
}

// tree creates a tree of relations with ten branches at each node.
func (s *suite) tree(ctx context.Context, n int) error {
	var entities, edges strings.Builder
	for i := range n {
		fmt.Fprintf(&entities, "{\"id\":\"tree-%d\"}\n", i)
		if i > 0 {
			fmt.Fprintf(&edges, "{\"from\":\"tree-%d\",\"type\":\"has\",\"to\":\"tree-%d\"}\n", (i-1)/10, i)
		}
	}
	for _, part := range []struct{ what, body string }{{"entities", entities.String()}, {"relations", edges.String()}} {
		var done imported
		err := s.child.client.do(ctx, "POST", "/v1/import?what="+part.what, "application/x-ndjson", part.body, &done)
		if err == nil && done.Failed > 0 {
			err = fmt.Errorf("%d of %d %s: %s", done.Failed, done.Lines, part.what, done.Errors[0].Detail)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runFanOut opens many streams, each of some of the entities.
func runFanOut(ctx context.Context, s *suite) error {
	const streams = 1000
	entities := s.entities(10_000)
	var got atomic.Int64
	for i := range streams {
		query := "entity=bench-" + strconv.Itoa(i%entities)
		if i%10 == 0 {
			query += "&q=" + url.QueryEscape("temperature > 20")
		}
		events, stop, err := s.follow(ctx, query)
		if err != nil {
			return err
		}
		defer stop()
		go func() {
			for {
				select {
				case <-events:
					got.Add(1)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	r := s.publisher("fan-out", entities, meterMessage)
	s.publish(ctx, fmt.Sprintf("%d streams", streams), r)
	f, err := s.figures(ctx)
	if err == nil {
		fmt.Fprintf(s.stdout, "  %.0f events sent, %d read so far\n", f.streamed, got.Load())
	}
	return err
}

// runCrash runs greenroom verify for the duration of a shape.
func runCrash(ctx context.Context, s *suite) error {
	rounds := max(1, int(s.options.duration/(2*time.Second)))
	return verify(ctx, verifyOptions{data: s.place.dir, rounds: rounds, connections: min(s.options.connections, 8), seed: uint64(time.Now().UnixNano())}, s.stdout)
}
