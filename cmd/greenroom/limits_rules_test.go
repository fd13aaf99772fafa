package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// each calls f with the numbers below n, some at once.
func (s *limited) each(n int, f func(i int)) {
	const workers = 8
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < n; i += workers {
				f(i)
			}
		})
	}
	all.Wait()
}

// alarms has more alarms than are kept in memory, of which a webhook is told that does not answer, and a rule too many.
func (s *limited) alarms() {
	const rules, raising, entities = 1000, 10, 3000
	s.must(201, "PUT", "/v1/webhooks/nobody", "application/json", `{"url":"http://127.0.0.1:9/"}`)
	rule := func(i int) (path, body string) {
		key := "x"
		if i >= raising {
			key = fmt.Sprint("y", i)
		}
		return fmt.Sprintf("/v1/alarm-rules/r%d", i), fmt.Sprintf(`{"raise":"%s like 'a%%'","severity":"minor","webhooks":["nobody"]}`, key)
	}
	for i := range rules {
		path, body := rule(i)
		s.must(201, "PUT", path, "application/json", body)
	}
	path, body := rule(rules)
	s.refused(422, "1000", "PUT", path, "application/json", body)
	value := "a" + strings.Repeat("x", 900)
	s.each(entities, func(i int) {
		s.must(204, "POST", fmt.Sprintf("/v1/entities/alarmed-%d/telemetry", i), "application/json", fmt.Sprintf(`{"x":%q}`, value))
	})
	var hook struct{ Queued, Dead int64 }
	s.until("the webhook has lost deliveries", func() bool {
		getJSON(s.t, s.http, "/v1/webhooks/nobody", &hook)
		return hook.Queued+hook.Dead >= 20_000
	})
	if hook.Queued > 10_000 || hook.Dead > 10_000 {
		s.t.Errorf("the webhook has %d deliveries that wait and %d dead letters", hook.Queued, hook.Dead)
	}
	s.each(entities, func(i int) { // all alarms clear
		s.must(204, "POST", fmt.Sprintf("/v1/entities/alarmed-%d/telemetry", i), "application/json", `{"x":"b"}`)
	})
}

// scripts has scripts that keep all that they can, and one too many.
func (s *limited) scripts() {
	const most = 64
	source := "function on_reading(e, r) end"
	if s.long {
		source = `local kept = {}
function on_reading(e, r)
	for i = 1, 300 do kept[#kept + 1] = string.rep("x", 100) .. #kept end
end`
	}
	put := func(i int) (status int, text string) {
		return s.try("PUT", fmt.Sprintf("/v1/scripts/s%d", i), "application/json", fmt.Sprintf(`{"keys":["scripted"],"source":%q}`, source))
	}
	for i := range most {
		if status, text := put(i); status != http.StatusCreated {
			s.t.Fatalf("script %d: %d %s", i, status, text)
		}
	}
	if status, text := put(most); status != 422 || !strings.Contains(text, "64") {
		s.t.Errorf("one script more: %d %s", status, text)
	}
	if !s.long {
		return
	}
	for round := range 100 {
		s.each(20, func(i int) {
			s.must(204, "POST", fmt.Sprintf("/v1/entities/scripted-%d/telemetry", i), "application/json", fmt.Sprintf(`{"scripted":%d}`, round))
		})
	}
	s.until("scripts that have used all of their memory fail", func() bool {
		var script struct{ Failures int64 }
		getJSON(s.t, s.http, "/v1/scripts/s0", &script)
		return script.Failures > 0
	})
}

// indexes has searches by more paths than there are indexes, over more entities than are searched without.
func (s *limited) indexes() {
	const entities, paths = 12_000, 40
	s.each(entities, func(i int) {
		var b strings.Builder
		for k := range paths {
			fmt.Fprintf(&b, `,"n%d":%d`, k, i)
		}
		s.must(204, "POST", fmt.Sprintf("/v1/entities/indexed-%d/telemetry", i), "application/json", "{"+b.String()[1:]+"}")
	})
	for k := range paths {
		text := s.must(200, "POST", "/v1/search", "application/json", fmt.Sprintf(`{"filter":"n%d >= %d","limit":1,"count":true}`, k, entities-10))
		if !strings.Contains(text, `"total":10`) && !strings.Contains(text, `"count":10`) {
			s.t.Errorf("path %d: %.300s", k, text)
		}
	}
}
