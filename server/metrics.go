package server

import (
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/greenroom-go/greenroom/inspect"
)

// metrics are the metrics at /metrics. Labels have bounded sets of values, such as routes, causes
// and reasons, but never entities, topics or clients.
type metrics struct {
	registry *prometheus.Registry
	handler  http.Handler
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "greenroom_http_requests_total", Help: "HTTP requests answered, by operation and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "greenroom_http_request_seconds", Help: "How long HTTP requests took, by operation; streams, exports, imports and recomputations are left out.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route"}),
	}
	m.registry.MustRegister(m.requests, m.duration, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(s), inspect.Collector(s.system))
	if s.cfg.front != nil {
		m.registry.MustRegister(s.cfg.front.metrics)
	}
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return m
}

// operationMetrics are the metrics of one operation of the API; looking up a metric by its labels
// takes longer than counting.
type operationMetrics struct {
	method   string
	pattern  string
	requests *prometheus.CounterVec
	duration prometheus.Observer // nil if the duration is not measured
	last     atomic.Pointer[statusMetric]
}

// statusMetric counts the requests that were answered with a status.
type statusMetric struct {
	status   int
	requests prometheus.Counter
}

func (m *metrics) operation(op *operation) *operationMetrics {
	o := &operationMetrics{method: op.method, pattern: op.pattern, requests: m.requests}
	if !op.slow {
		o.duration = m.duration.WithLabelValues(op.method, op.pattern)
	}
	return o
}

// observe counts a request. Status 0 means that the client left before a response.
func (o *operationMetrics) observe(status int, took time.Duration) {
	if status == 0 {
		status = 499
	}
	metric := o.last.Load()
	if metric == nil || metric.status != status {
		metric = &statusMetric{status, o.requests.WithLabelValues(o.method, o.pattern, strconv.Itoa(status))}
		o.last.Store(metric)
	}
	metric.requests.Inc()
	if o.duration != nil {
		o.duration.Observe(took.Seconds())
	}
}

// collector reads the counters of the runtime, the actor system and the broker on each scrape;
// nothing is counted twice.
type collector struct {
	server *Server
	values []valueMetric

	commit, refused, messages, events, logins, info *prometheus.Desc
}

// valueMetric is a metric without labels.
type valueMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*snapshot) float64
}

func newCollector(s *Server) *collector {
	return &collector{
		server:   s,
		values:   valueMetrics(),
		commit:   prometheus.NewDesc("greenroom_commit_seconds", "From an entity's acceptance of readings to their commit.", nil, nil),
		refused:  prometheus.NewDesc("greenroom_refused_total", "Messages and requests refused, by source and cause.", []string{"source", "cause"}, nil),
		messages: prometheus.NewDesc("greenroom_mqtt_messages_total", "Publishes received, by quality of service.", []string{"qos"}, nil),
		events:   prometheus.NewDesc("greenroom_stream_events_total", "Events sent to the readers of streams, by name.", []string{"event"}, nil),
		logins:   prometheus.NewDesc("greenroom_logins_total", "Logins and requests with credentials, by what came of them.", []string{"result"}, nil),
		info:     prometheus.NewDesc("greenroom_build_info", "Always 1; the labels say what is running.", []string{"version", "go_version"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range c.values {
		out <- v.desc
	}
	for _, d := range []*prometheus.Desc{c.commit, c.refused, c.messages, c.events, c.logins, c.info} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := newSnapshot(c.server)
	for _, v := range c.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(s))
	}
	latency := s.runtime.CommitLatency
	buckets, below := make(map[float64]uint64, len(latency.Bounds)), uint64(0)
	for i, bound := range latency.Bounds {
		below += latency.Counts[i]
		buckets[bound.Seconds()] = below
	}
	out <- prometheus.MustNewConstHistogram(c.commit, latency.Count, latency.Sum.Seconds(), buckets)
	for key, n := range c.server.refusals.Counts() {
		out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(n), key.Source, key.Cause)
	}
	for qos, n := range s.mqtt.Received {
		out <- prometheus.MustNewConstMetric(c.messages, prometheus.CounterValue, float64(n), strconv.Itoa(qos))
	}
	for i, name := range eventNames {
		out <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, float64(c.server.streams.events[i].Load()), name)
	}
	for result, n := range map[string]uint64{"ok": s.logins.OK, "failed": s.logins.Failed, "slowed": s.logins.Slowed, "busy": s.logins.Busy} {
		out <- prometheus.MustNewConstMetric(c.logins, prometheus.CounterValue, float64(n), result)
	}
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, c.server.cfg.Version, runtime.Version())
}
