package inspect

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/actor"
)

// metric is a counter or a gauge without labels.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*actor.Stats) float64
}

func newMetric(kind prometheus.ValueType, name, help string, read func(*actor.Stats) float64) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), kind, read}
}

var metrics = []metric{
	newMetric(prometheus.GaugeValue, "greenroom_actors", "Living actors.", func(s *actor.Stats) float64 { return float64(s.Actors) }),
	newMetric(prometheus.GaugeValue, "greenroom_actors_runnable", "Actors that have mail and wait for a worker.", func(s *actor.Stats) float64 { return float64(s.Queued) }),
	newMetric(prometheus.GaugeValue, "greenroom_actors_waiting", "Handlers that wait with their stacks set aside.", func(s *actor.Stats) float64 { return float64(s.Waiting) }),
	newMetric(prometheus.GaugeValue, "greenroom_workers", "Goroutines that run actors.", func(s *actor.Stats) float64 { return float64(s.Workers) }),
	newMetric(prometheus.GaugeValue, "greenroom_timers", "Pending timers of actors.", func(s *actor.Stats) float64 { return float64(s.Timers) }),
	newMetric(prometheus.CounterValue, "greenroom_actor_messages_total", "Messages that actors handled.", func(s *actor.Stats) float64 { return float64(s.Handled) }),
	newMetric(prometheus.CounterValue, "greenroom_actor_failures_total", "Failures of actors.", func(s *actor.Stats) float64 { return float64(s.Failures) }),
	newMetric(prometheus.CounterValue, "greenroom_actor_restarts_total", "Restarts of actors.", func(s *actor.Stats) float64 { return float64(s.Restarts) }),
	newMetric(prometheus.CounterValue, "greenroom_actor_events_lost_total", "Events for which the mailbox of a listener had no room.", func(s *actor.Stats) float64 { return float64(s.EventsLost) }),
}

var (
	bulkheadBusy    = ofBulkhead("greenroom_bulkhead_busy", "Handlers of a bulkhead that run or block.")
	bulkheadWorkers = ofBulkhead("greenroom_bulkhead_workers", "Handlers of a bulkhead that may run at once.")
	bulkheadQueued  = ofBulkhead("greenroom_bulkhead_runnable", "Actors of a bulkhead that have mail and wait for a worker.")
	bulkheadHandled = ofBulkhead("greenroom_bulkhead_messages_total", "Messages that actors of a bulkhead handled.")
)

func ofBulkhead(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"bulkhead"}, nil)
}

var deadLettersTotal = prometheus.NewDesc("greenroom_dead_letters_total", "Messages to actors that were not handled, by reason.", []string{"reason"}, nil)

type collector struct{ sys *actor.System }

// Collector returns the counters of a system for a Prometheus registry. Its labels have a bounded
// set of values: reasons, bulkheads and the nodes of the cluster, never an actor. For several
// systems in one registry, wrap it with [prometheus.WrapCollectorWith] and a label for the system.
func Collector(sys *actor.System) prometheus.Collector { return collector{sys} }

// Describe sends the descriptions.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	out <- deadLettersTotal
	for _, m := range nodeMetrics {
		out <- m.desc
	}
	for _, d := range []*prometheus.Desc{bulkheadBusy, bulkheadWorkers, bulkheadQueued, bulkheadHandled} {
		out <- d
	}
}

// Collect sends the present values.
func (c collector) Collect(out chan<- prometheus.Metric) {
	stats := c.sys.Stats()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(&stats))
	}
	for reason, n := range stats.DeadLettersByReason {
		out <- prometheus.MustNewConstMetric(deadLettersTotal, prometheus.CounterValue, float64(n), reason)
	}
	collectNodes(c.sys, out)
	for _, b := range stats.Bulkheads {
		out <- prometheus.MustNewConstMetric(bulkheadBusy, prometheus.GaugeValue, float64(b.Busy), b.Name)
		out <- prometheus.MustNewConstMetric(bulkheadWorkers, prometheus.GaugeValue, float64(b.Workers), b.Name)
		out <- prometheus.MustNewConstMetric(bulkheadQueued, prometheus.GaugeValue, float64(b.Queued), b.Name)
		out <- prometheus.MustNewConstMetric(bulkheadHandled, prometheus.CounterValue, float64(b.Handled), b.Name)
	}
}
