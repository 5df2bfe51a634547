package daemon

import (
	"context"
	"net/http"
	"sync"
	"time"

	"bourn/api"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// keptSpans is how many finished spans are kept to be looked at.
const keptSpans = 1000

// traces keeps the newest spans in memory, where /v1/traces shows them.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext

	mu   sync.Mutex
	ring []api.Span
	next int
}

func newTraces() *traces {
	t := &traces{}
	t.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(t))
	t.tracer = t.provider.Tracer("bournd")
	return t
}

// begin starts the span of a request; a caller's traceparent (W3C Trace Context) is
// continued. end names what the request turned out to be.
func (t *traces) begin(ctx context.Context, r *http.Request) (context.Context, func(route string, status int)) {
	ctx = t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, method(r.Method), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(route string, status int) {
		span.SetName(method(r.Method) + " " + route)
		span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("http.route", route))
		if status >= 500 {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// traceID is the id of the trace that ctx is part of, for the log.
func traceID(ctx context.Context) string {
	if s := trace.SpanContextFromContext(ctx); s.HasTraceID() {
		return s.TraceID().String()
	}
	return ""
}

// OnStart implements sdk.SpanProcessor.
func (t *traces) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd keeps a span.
func (t *traces) OnEnd(s sdk.ReadOnlySpan) {
	span := api.Span{Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(), Name: s.Name(),
		Start: s.StartTime().UTC(), Microseconds: s.EndTime().Sub(s.StartTime()).Microseconds(), Failed: s.Status().Code == codes.Error}
	if s.Parent().HasSpanID() {
		span.Parent = s.Parent().SpanID().String()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) < keptSpans {
		t.ring = append(t.ring, span)
		return
	}
	t.ring[t.next] = span
	t.next = (t.next + 1) % keptSpans
}

// Shutdown implements sdk.SpanProcessor.
func (t *traces) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (t *traces) ForceFlush(context.Context) error { return nil }

// Newest returns the kept spans, the oldest first.
func (t *traces) Newest() []api.Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append(make([]api.Span, 0, len(t.ring)), t.ring[t.next:]...), t.ring[:t.next]...)
}

// close ends the provider.
func (t *traces) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // it keeps everything in memory
}
