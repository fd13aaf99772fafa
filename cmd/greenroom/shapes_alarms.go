package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// alarmRounds is how often the messages of each set of rules are measured. The sets take turns, so
// that other activity on the machine affects them all.
const alarmRounds = 5

// ruleSet is rules beside which messages are measured. %d in a condition is the number of the rule,
// from 10.
type ruleSet struct {
	name                string
	rules               int
	where, raise, clear string
}

var ruleSets = []ruleSet{
	{name: "no rules"},
	{name: "10 rules", rules: 10, raise: "temperature > 10%d", clear: "temperature < 9%d"},
	{name: "100 rules", rules: 100, raise: "temperature > 10%d", clear: "temperature < 9%d"},
	// Each is evaluated for each message.
	{name: "100 rules of two keys", rules: 100, raise: "temperature > humidity + 10%d"},
	// A tenth of the entities have one rule each, which raises and clears an alarm in 18 messages.
	{name: "100 rules with alarms", rules: 100, where: `id like "bench-%%%d"`, raise: "temperature > 22 or temperature > 10%d", clear: "temperature < 21 and temperature < 10%d"},
}

// runAlarms publishes as many messages as possible to servers with different rules, which concern all
// entities. The servers take turns.
func runAlarms(ctx context.Context, s *suite) (err error) {
	entities := s.entities(10_000)
	sides := make([]*suite, len(ruleSets))
	for i := range ruleSets {
		sides[i] = s
		if i > 0 {
			place, err := newScratch(cmp.Or(s.options.data, "."), "", "bench")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, place.remove()) }()
			sides[i] = &suite{options: s.options, stdout: s.stdout, place: place}
			if sides[i].child, err = startChild(ctx, place); err != nil {
				return err
			}
			defer func() { _ = sides[i].child.kill() }() // it may have ended already
		}
		register := sides[i].publisher("alarms", entities, meterMessage)
		register.goRound(1)
		if err := register.run(ctx); err != nil {
			return err
		}
		if err := sides[i].child.putRules(ctx, &ruleSets[i], min(ruleSets[i].rules, entities)); err != nil {
			return err
		}
	}
	loads := make([]measured, len(ruleSets))
	rates := make([][]float64, len(ruleSets))
	for round := range alarmRounds + 1 {
		for i, side := range sides {
			r := side.publisher("alarms", entities, meterMessage)
			m, err := side.measure(ctx, ruleSets[i].name, &r.latency, func() (int64, error) {
				err := r.run(ctx)
				return r.acked.Load(), err
			})
			if err != nil {
				return err
			}
			m.took = r.took
			if round == 0 { // the entities are read
				loads[i] = measured{what: m.what, latency: &latencies{}}
				continue
			}
			rates[i] = append(rates[i], m.perSecond())
			loads[i].add(&m, &r.latency)
		}
	}
	for i := range loads {
		s.print(&loads[i], besideNone(&loads[i], &loads[0], rates[i], rates[0]))
	}
	return nil
}

// besideNone describes the messages beside rules compared with those without.
func besideNone(m, none *measured, rates, ratesOfNone []float64) string {
	if m == none {
		return ""
	}
	rounds := make([]string, len(rates))
	for i := range rounds {
		rounds[i] = fmt.Sprintf("%.2f", rates[i]/ratesOfNone[i])
	}
	return fmt.Sprintf("%.2f of the messages/s without rules (in the rounds %s), %.2f times the CPU time of a message",
		m.perSecond()/none.perSecond(), strings.Join(rounds, ", "), m.cpu/float64(m.messages)/(none.cpu/float64(none.messages)))
}

// putRules creates the first n rules of a set.
func (c *child) putRules(ctx context.Context, set *ruleSet, n int) error {
	for i := range n {
		body, err := json.Marshal(map[string]string{
			"where": numbered(set.where, i), "raise": numbered(set.raise, i), "clear": numbered(set.clear, i), "severity": "minor",
		})
		if err == nil {
			err = c.client.do(ctx, http.MethodPut, fmt.Sprintf("/v1/alarm-rules/bench-%d", i), "application/json", string(body), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// numbered inserts the number of a rule into a condition.
func numbered(condition string, i int) string {
	if condition == "" {
		return ""
	}
	return fmt.Sprintf(condition, 10+i)
}
