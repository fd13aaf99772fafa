package server

import (
	"context"
	"net/http"
	"reflect"
	"time"
)

// operation is one operation of the HTTP API. The router, the reading of requests,
// the metrics and openapi.json are all made from it, so this is the only place that
// describes an operation.
type operation struct {
	method, pattern string
	id, summary     string
	needs           permission
	request         *decoder
	reply           reflect.Type // of the body of a success; nil where bodies says it
	bodies          []content    // of the request, where it is not the JSON of the field Body
	replies         []content    // of a success, where it is not the JSON of reply
	statuses        []int        // of a success
	problems        []int        // besides those that any such operation may have
	limit           int64        // of the bytes of the body
	timeout         time.Duration
	slow            bool // takes as long as there is data: not measured, no write deadline
	waits           bool // for something to happen, but not when who asks is revoked
	failed          func(r *http.Request, err error)
	handle          func(w http.ResponseWriter, r *http.Request, in reflect.Value) error
}

// content is one media type of a body and a value of the Go type that describes it.
type content struct {
	media string
	value any
}

// answerTimeout bounds a question. A stream has no end, and a write is waited for as
// long as the client waits.
const answerTimeout = 30 * time.Second

// maxPublicBodyBytes bounds a body that is read before it is known who sends it.
const maxPublicBodyBytes = 16 << 10

// publicReadTimeout bounds the time for which it may come.
const publicReadTimeout = 5 * time.Second

// option adjusts an operation.
type option func(*operation)

// fails lists the statuses of problems that are not common to all such operations.
func fails(statuses ...int) option { return func(o *operation) { o.problems = statuses } }

// answers lists the statuses of a success. Without it that is 200, or 204 for an
// answer of nothing.
func answers(statuses ...int) option { return func(o *operation) { o.statuses = statuses } }

// accepts lists the media types of a body of type payload; a request that names none
// has the first.
func accepts(limit int64, bodies ...content) option {
	return func(o *operation) { o.limit, o.bodies = limit, bodies }
}

// sends lists the media types of an answer that the handler writes by itself.
func sends(replies ...content) option { return func(o *operation) { o.replies = replies } }

// asks bounds an operation that only reads although it is a POST.
func asks(o *operation) { o.timeout = answerTimeout }

// takesLong is for what takes as long as there is data.
func takesLong(o *operation) { o.timeout, o.slow = 0, true }

// awaits is for what waits for something to happen.
func awaits(o *operation) { o.waits = true }

// onError calls f with the errors of an operation.
func onError(f func(r *http.Request, err error)) option {
	return func(o *operation) { o.failed = f }
}

// nothing is the body of an answer that has none.
type nothing struct{}

// op makes an operation of a handler from In, the parameters and the body of a
// request, to Out, the body of the answer.
func op[In, Out any](method, pattern, id, summary string, f func(context.Context, *In) (*answer[Out], error), options ...option) operation {
	o := newOperation(method, pattern, id, summary, reflect.TypeFor[In](), func(w http.ResponseWriter, r *http.Request, in reflect.Value) error {
		a, err := f(r.Context(), in.Interface().(*In))
		if err != nil {
			return err
		}
		callerOf(r.Context()).changed() // before the client knows
		return a.write(w, r)
	})
	o.reply, o.statuses = reflect.TypeFor[Out](), []int{http.StatusOK}
	if o.reply == reflect.TypeFor[nothing]() {
		o.reply, o.statuses = nil, []int{http.StatusNoContent}
	}
	return o.with(options)
}

// rawOp makes an operation of a handler that writes its answer by itself.
func rawOp[In any](method, pattern, id, summary string, f func(http.ResponseWriter, *http.Request, *In) error, options ...option) operation {
	o := newOperation(method, pattern, id, summary, reflect.TypeFor[In](), func(w http.ResponseWriter, r *http.Request, in reflect.Value) error {
		return f(w, r, in.Interface().(*In))
	})
	o.statuses = []int{http.StatusOK}
	return o.with(options)
}

func newOperation(method, pattern, id, summary string, in reflect.Type, handle func(http.ResponseWriter, *http.Request, reflect.Value) error) operation {
	o := operation{method: method, pattern: pattern, id: id, summary: summary, request: newDecoder(in), limit: maxBodyBytes, handle: handle}
	if method == http.MethodGet {
		o.timeout = answerTimeout
	}
	return o
}

func (o operation) with(options []option) operation {
	for _, option := range options {
		option(&o)
	}
	if o.needs == public {
		o.limit = min(o.limit, maxPublicBodyBytes)
	}
	return o
}

// serve reads a request and answers it.
func (o *operation) serve(w http.ResponseWriter, r *http.Request) error {
	if o.timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), o.timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	rc := http.NewResponseController(w)
	short := o.needs == public && r.ContentLength != 0
	if short {
		if err := rc.SetReadDeadline(time.Now().Add(publicReadTimeout)); err != nil {
			return err
		}
	}
	in, err := o.request.decode(w, r, o)
	if err == nil && short { // the end of the time would end the request
		err = rc.SetReadDeadline(time.Now().Add(readTimeout))
	}
	if err == nil && o.slow {
		err = rc.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		err = o.handle(w, r, in)
	}
	if err == nil {
		callerOf(r.Context()).changed()
	}
	if err != nil && o.failed != nil {
		o.failed(r, err)
	}
	return err
}

// medias returns the media types of the body.
func (o *operation) medias() []string {
	if o.bodies == nil {
		return []string{mediaJSON}
	}
	list := make([]string, len(o.bodies))
	for i := range o.bodies {
		list[i] = o.bodies[i].media
	}
	return list
}
