package server

import (
	"context"
	"io"
	"maps"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsPath is the path of the metrics of a node: its own and, if it owns the store, those of its
// server.
const metricsPath = "/metrics"

// frontMetrics are the metrics of a node of a cluster, whose names begin with greenroom_node. The server that owns the
// store has them among its own.
type frontMetrics struct {
	handler    http.Handler // of a node that forwards
	http, mqtt passMetrics
	waited     prometheus.Histogram
	refused    prometheus.Counter
	all        []prometheus.Collector
}

// passMetrics count what a node has forwarded, by the result.
type passMetrics struct{ passed, noOwner, failed prometheus.Counter }

func newFrontMetrics(f *Front) *frontMetrics {
	passed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "greenroom_node_forwarded_total",
		Help: "HTTP requests, and attempts to pass on MQTT connections, by what came of them: passed, no_owner or failed. Those that the node's own server answers count with no_owner only.",
	}, []string{"protocol", "result"})
	of := func(protocol string) passMetrics {
		return passMetrics{passed.WithLabelValues(protocol, "passed"), passed.WithLabelValues(protocol, "no_owner"), passed.WithLabelValues(protocol, "failed")}
	}
	m := &frontMetrics{
		http: of("http"), mqtt: of("mqtt"),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "greenroom_node_owner_wait_seconds", Help: "How long requests and MQTT connections waited until a node was known to own the store.",
			Buckets: []float64{.001, .01, .1, .5, 1, 2, 5, 10},
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "greenroom_node_links_refused_total", Help: "Connections to the link of this node that have not shown that they know the secret of the cluster.",
		}),
	}
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read)
	}
	connections := func(of string, count func() int) prometheus.Collector {
		return gauge("greenroom_node_connections", "Connections: of clients that speak HTTP; of MQTT clients that wait or are passed on; of other nodes for HTTP; and to the link, from who has not shown that it knows the secret.",
			prometheus.Labels{"of": of}, func() float64 { return float64(count()) })
	}
	m.all = []prometheus.Collector{
		passed, m.waited, m.refused,
		connections("http", f.conns.count), connections("mqtt", f.mqtts.count), connections("nodes", f.linkHTTP.count), connections("strangers", f.guests.count),
		gauge("greenroom_node_kept_bytes", "Bodies of requests that are kept to be sent again.", nil, func() float64 { return float64(f.kept.Used()) }),
		gauge("greenroom_node_owns", "1 if this node owns the store.", nil, func() float64 {
			if node, _ := f.Owner(); node == f.node.Name {
				return 1
			}
			return 0
		}),
		gauge("greenroom_node_owner_epoch", "The epoch of the node that is known to own the store, 0 for none.", nil, func() float64 {
			_, epoch := f.Owner()
			return float64(epoch)
		}),
	}
	own := prometheus.NewRegistry()
	info := gauge("greenroom_build_info", "Always 1; the labels say what is running.", prometheus.Labels{"version": f.cfg.Version, "go_version": runtime.Version()}, func() float64 { return 1 })
	own.MustRegister(m, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(own, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return m
}

// Describe implements prometheus.Collector.
func (m *frontMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *frontMetrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(out)
	}
}

// showMetrics answers with the metrics of this node, if the owner would answer with its own, and otherwise as the owner
// does. It reports false if that does not answer.
func (f *Front) showMetrics(a *answerer, w http.ResponseWriter, r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	asked := r.Clone(ctx)
	asked.Method, asked.Body, asked.ContentLength = http.MethodGet, http.NoBody, 0
	asked.URL.Scheme, asked.URL.Host = "http", "owner"
	asked.Header = http.Header{clientHeader: {clientOf(r).header()}}
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For"} {
		if values, ok := r.Header[name]; ok {
			asked.Header[name] = values
		}
	}
	resp, _, err := a.tripOnce(asked)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.Header.Get(refuseHeader) != "" {
		return false
	}
	recognizedBy(r, resp)
	if resp.StatusCode == http.StatusOK {
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		f.metrics.handler.ServeHTTP(w, r)
		return true
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the client may have left
	return true
}
