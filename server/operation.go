package server

import (
	"context"
	"net/http"
	"reflect"
	"time"
)

// operation is an operation of the HTTP API. The router, the decoding of requests, the metrics and
// openapi.json are all derived from it.
type operation struct {
	method, pattern string
	id, summary     string
	needs           permission
	request         *decoder
	reply           reflect.Type // of the body of a success; nil if bodies describes it
	bodies          []content    // of the request, unless it is the JSON of the field Body
	replies         []content    // of a success, unless it is the JSON of reply
	statuses        []int        // of a success
	problems        []int        // besides those common to all operations of its kind
	limit           int64        // of the body, in bytes
	timeout         time.Duration
	slow            bool // takes as long as there is data: not measured, no write deadline
	much            bool // its answers may have megabytes
	waits           bool // for an event, unless the caller is revoked
	failed          func(r *http.Request, err error)
	handle          func(w http.ResponseWriter, r *http.Request, in reflect.Value) error
}

// content is a media type of a body, with a value of the Go type that describes it.
type content struct {
	media string
	value any
}

// answerTimeout bounds an operation that only reads. A stream is unbounded, and a write lasts as
// long as the client waits.
const answerTimeout = 30 * time.Second

// maxPublicBodyBytes bounds a body that is read before its sender is known.
const maxPublicBodyBytes = 16 << 10

// publicReadTimeout bounds the reading of such a body.
const publicReadTimeout = 5 * time.Second

// option adjusts an operation.
type option func(*operation)

// fails lists the statuses of problems that are not common to all operations of the kind.
func fails(statuses ...int) option { return func(o *operation) { o.problems = statuses } }

// answers lists the statuses of a success. The default is 200, or 204 without a body.
func answers(statuses ...int) option { return func(o *operation) { o.statuses = statuses } }

// accepts lists the media types of a body of type payload; the first is the default.
func accepts(limit int64, bodies ...content) option {
	return func(o *operation) { o.limit, o.bodies = limit, bodies }
}

// sends lists the media types of a response that the handler writes itself.
func sends(replies ...content) option { return func(o *operation) { o.replies = replies } }

// asks sets the timeout of a POST that only reads.
func asks(o *operation) { o.timeout = answerTimeout }

// takesLong is for operations that take as long as there is data.
func takesLong(o *operation) { o.timeout, o.slow = 0, true }

// answersMuch is for operations whose answers may have megabytes.
func answersMuch(o *operation) { o.much = true }

// awaits is for operations that wait for an event.
func awaits(o *operation) { o.waits = true }

// onError sets a function that is called with the errors of an operation.
func onError(f func(r *http.Request, err error)) option {
	return func(o *operation) { o.failed = f }
}

// nothing is the type of a response without a body.
type nothing struct{}

// op returns the operation of a handler with the parameters and body In and the response body Out.
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

// rawOp returns the operation of a handler that writes the response itself.
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

// serve decodes a request and runs the handler.
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
	if err == nil && short { // an expired deadline would end the request
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
