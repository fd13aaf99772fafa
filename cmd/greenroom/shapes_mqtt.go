package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// runMeters is ThingsBoard's load of meters, at its rates and without a limit.
func runMeters(ctx context.Context, s *suite) error {
	entities := s.entities(100_000)
	var last *benchRun
	for _, rate := range []float64{1111, 11111, 0} {
		r := s.publisher("meters", entities, meterMessage)
		what := "as many as possible"
		if r.rate = rate; rate > 0 {
			what = fmt.Sprintf("%.0f messages/s", rate)
		}
		s.publish(ctx, what, r)
		last = r
	}
	return s.loss(ctx, last, "battery")
}

// runMillion registers many entities, loads them, and restarts the server.
func runMillion(ctx context.Context, s *suite) error {
	entities := s.entities(1_000_000)
	register := s.publisher("million", entities, meterMessage)
	register.goRound(1)
	s.publish(ctx, fmt.Sprintf("register %d", entities), register)
	load := s.publisher("million-load", entities, meterMessage)
	load.rate = 11111
	s.publish(ctx, "11111 messages/s", load)
	if err := s.loss(ctx, register, "battery"); err != nil {
		return err
	}
	f, err := s.child.figures(ctx)
	if err == nil {
		fmt.Fprintf(s.stdout, "  memory after the start: %.0f MB\n", f.rss/1e6)
	}
	return err
}

// wideMessage returns a function that returns messages with many keys.
func wideMessage(keys int) func(*loader) (topic, payload []byte) {
	return func(l *loader) (topic, payload []byte) {
		payload = strconv.AppendInt([]byte(`{"ts":`), l.shared.began.UnixMilli()+l.count, 10)
		payload = append(payload, `,"values":{`...)
		for i := range keys {
			if i > 0 {
				payload = append(payload, ',')
			}
			payload = append(payload, `"line`...)
			payload = strconv.AppendInt(payload, int64(1000+i), 10)
			payload = append(payload, `":`...)
			payload = strconv.AppendFloat(payload, 100*math.Sin(float64(l.count+int64(i))/100), 'f', 2, 64)
		}
		return topicOf(l.shared.entityOf(l.index, l.count)), append(payload, "}}"...)
	}
}

// runPLC sends messages with many keys.
func runPLC(ctx context.Context, s *suite) error {
	s.publish(ctx, "1000 entities × 60 keys", s.publisher("plc", 1000, wideMessage(60)))
	calm := s.publisher("calm", 20, wideMessage(301))
	calm.rate = 500
	s.publish(ctx, "301 keys, 500 messages/s", calm)
	wide := s.publisher("wide", 20, wideMessage(301))
	s.publish(ctx, "20 entities × 301 keys", wide)
	return s.loss(ctx, wide, "line1300")
}

// runHot sends messages to one entity from one connection.
func runHot(ctx context.Context, s *suite) error {
	r := s.publisher("hot", 1, meterMessage)
	s.publish(ctx, "one entity, 1 connection", r)
	return s.loss(ctx, r, "battery")
}

// runReconnect lets devices reconnect at the same time with what they have gathered: first a
// current reading, and then the buffered ones, which are late.
func runReconnect(ctx context.Context, s *suite) error {
	const buffered = 100
	devices := s.entities(1000)
	r := s.publisher("storm", devices, nil)
	r.connections, r.inFlight = devices, buffered
	r.goRound(buffered + 1)
	r.message = func(l *loader) (topic, payload []byte) {
		at := r.began.UnixMilli()
		if l.count > 0 {
			at -= (buffered - l.count%buffered) * 60_000
		}
		return topicOf(l.index), fmt.Appendf(nil, `{"ts":%d,"values":{"temperature":%d.5,"humidity":40.5,"battery":%d}}`, at+l.count, l.count%30, l.count%100)
	}
	s.publish(ctx, fmt.Sprintf("%d devices × %d", devices, buffered+1), r)
	return s.loss(ctx, r, "battery")
}

// runFanIn maps meters to floors and floors to a building, and measures how far the building lags
// behind.
func runFanIn(ctx context.Context, s *suite) error {
	const floors = 100
	meters := s.entities(10_000)
	for f := range floors {
		name := "floor-" + strconv.Itoa(f)
		body := fmt.Sprintf(`{"into":"floor-%d","select":[{"as":"power","value":"sum(m.power)"},{"as":"mean","value":"avg(m.power)"},{"as":"peak","value":"max(m.power)"}],"from":[{"as":"m","like":"meter-%d-%%"}]}`, f, f)
		if err := s.child.client.do(ctx, "PUT", "/v1/mappings/"+name, "application/json", body, nil); err != nil {
			return err
		}
	}
	body := `{"into":"building","select":[{"as":"power","value":"sum(f.power)"},{"as":"peak","value":"max(f.peak)"}],"from":[{"as":"f","like":"floor-%"}]}`
	if err := s.child.client.do(ctx, "PUT", "/v1/mappings/building", "application/json", body, nil); err != nil {
		return err
	}
	message := func(l *loader) (topic, payload []byte) {
		e := l.shared.entityOf(l.index, l.count)
		topic = fmt.Appendf(nil, "e/meter-%d-%d/telemetry", e%floors, e)
		return topic, fmt.Appendf(nil, `{"ts":%d,"values":{"power":%d}}`, l.shared.began.UnixMilli()+l.count, l.count%1000)
	}
	for _, rate := range []float64{10_000, 0} {
		r := s.publisher("fan-in", meters, message)
		r.rate = rate
		before, err := s.child.figures(ctx)
		if err != nil {
			return err
		}
		if s.publish(ctx, fmt.Sprintf("%d meters, %v messages/s", meters, rate), r); s.err != nil {
			return s.err
		}
		caught, after, err := s.caughtUp(ctx, meters, r)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.stdout, "  %.0f mapped readings; the building had all %v after the last acknowledgement\n", after.mapped-before.mapped, caught.Round(time.Millisecond))
	}
	return nil
}

// caughtUp waits until the building has the sum of the meters' last values.
func (s *suite) caughtUp(ctx context.Context, meters int, r *benchRun) (took time.Duration, after figures, err error) {
	last := make(map[int]int64, meters)
	for i, l := range r.loaders {
		for n := max(0, l.count-int64(meters)); n < l.count; n++ {
			last[r.entityOf(i, n)] = n % 1000
		}
	}
	if len(last) < meters { // not every meter has sent
		return 0, after, fmt.Errorf("only %d of %d meters have sent; --duration must be longer", len(last), meters)
	}
	sum := 0.0
	for _, v := range last {
		sum += float64(v)
	}
	began := time.Now()
	for time.Since(began) < verifyPatience {
		var building struct {
			Latest map[string]struct{ Value float64 }
		}
		if err := s.child.client.get(ctx, "/v1/entities/building?fields=latest", &building); err != nil {
			return 0, after, err
		}
		if building.Latest["power"].Value == sum {
			after, err = s.child.figures(ctx)
			return time.Since(began), after, err
		}
	}
	return 0, after, fmt.Errorf("the building has not come to %v in %v", sum, verifyPatience)
}
