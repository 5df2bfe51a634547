package daemon

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what /metrics shows. No label holds what a caller chose.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	refused  prometheus.Counter
	logged   *prometheus.CounterVec
	signed   prometheus.Gauge
	position prometheus.Gauge
	bounds   *prometheus.GaugeVec
	database prometheus.Gauge
}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "bourn_http_request_seconds", Help: "Time that requests took, by route and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}}, []string{"route", "method", "status"}),
		refused:  prometheus.NewCounter(prometheus.CounterOpts{Name: "bourn_sealed_peers_refused_total", Help: "Connections of sealed processes to the local socket."}),
		logged:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bourn_log_entries_total", Help: "Entries that were to be written to the log, by what became of it."}, []string{"result"}),
		signed:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "bourn_log_signed_timestamp_seconds", Help: "When the log was last signed."}),
		position: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bourn_log_signed_position", Help: "The last place in the log that is signed."}),
		bounds:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bourn_boundaries_state", Help: "1 for the state that the hard blocks are in."}, []string{"state"}),
		database: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bourn_database_up", Help: "1 while the database answers."}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "bourn_info", Help: "The program's version.", ConstLabels: prometheus.Labels{"version": version}})
	info.Set(1)
	m.registry.MustRegister(m.requests, m.refused, m.logged, m.signed, m.position, m.bounds, m.database, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// boundariesAre notes the state that the hard blocks are in.
func (m *metrics) boundariesAre(state string) {
	for _, s := range []string{"ok", "none", "invalid"} {
		v := 0.0
		if s == state {
			v = 1
		}
		m.bounds.WithLabelValues(s).Set(v)
	}
}

// answer notes the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status != 0 {
		return // it has begun, and whoever asked does not take it
	}
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// measured times each request and traces it. A route is named by its pattern: paths
// that nobody defined are one.
func (s *server) measured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answer{ResponseWriter: w}
		ctx, end := s.traces.begin(r.Context(), r)
		met := new(pattern)
		s.answering.Add(1)
		defer s.answering.Done()
		// Also of one that is broken off.
		defer func() {
			status := a.status
			if status == 0 {
				status = http.StatusOK
			}
			route := met.name()
			end(route, status)
			s.metrics.requests.WithLabelValues(route, method(r.Method), strconv.Itoa(status)).Observe(time.Since(began).Seconds())
		}()
		next.ServeHTTP(a, r.WithContext(context.WithValue(ctx, patternKey, met)))
	})
}

// measuredNow has the gauges of what is now read anew for each look at them.
func (s *server) measuredNow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.control.health(r.Context())
		next.ServeHTTP(w, r)
	})
}

// A pattern is the route that a request met, once it did.
type pattern struct{ met string }

// name bounds what a label can be: what met no route is one.
func (p *pattern) name() string {
	if p.met == "" || p.met == "/" {
		return "other"
	}
	return p.met
}

// routed notes which route a request meets.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := r.Context().Value(patternKey).(*pattern); ok {
			_, p.met = mux.Handler(r)
		}
		mux.ServeHTTP(w, r)
	})
}

// method bounds what a label can be.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE":
		return m
	}
	return "other"
}
