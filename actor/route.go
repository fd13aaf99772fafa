package actor

// Route decides, on the sender's goroutine, where a message goes: it calls to for each actor that
// should get it. It is called concurrently, must not block, and must not keep to. A message for
// which it does not call to becomes a dead letter. If it chose a single actor, and that has ended or
// is drained, it is called again, up to three times in all.
type Route[M any] func(msg M, to func(Ref[M]))

// Routed returns a reference that passes on messages as route decides, with their sender and asker
// unchanged, directly from the sender to the receiver. A request that goes to several actors is
// answered by the first answer; it fails when all have failed.
//
// The reference has the address of owner, the actor that looks after the receivers: Stop, Drain,
// Kill and Watch of the reference concern that actor.
func Routed[M any](sys *System, owner PID, route Route[M]) (Ref[M], error) {
	required(route != nil, "Routed: the function that decides where a message goes is nil")
	c, err := sys.resolve(owner)
	if err != nil {
		return Ref[M]{}, err
	}
	return Ref[M]{&routed[M]{owner: c, route: route}}, nil
}

// routed is the target behind a routing reference.
type routed[M any] struct {
	owner *core
	route Route[M]
}

func (r *routed[M]) base() *core { return r.owner }

func (r *routed[M]) sys() *System { return r.owner.sys() }

// waitedOn is nil: who will have the request is not known before it is sent, and an owner
// may well ask its own pool.
func (r *routed[M]) waitedOn() *core { return nil }

// tellOrWait does not wait: the route would have to choose anew.
func (r *routed[M]) tellOrWait(e envelope[M], w *worker) (verdict, roomWaiter) {
	return r.tell(e, w), nil
}

// routeMost is how often a route may choose for a message: what it has chosen by may be out of date.
const routeMost = 3

func (r *routed[M]) tell(e envelope[M], w *worker) verdict {
	for n := 1; ; n++ {
		if v, chosen := r.pass(e, w); v != verdictGone || !chosen || n == routeMost {
			return v
		}
	}
}

// pass sends the message where the route says. It reports false if the route has chosen nobody.
func (r *routed[M]) pass(e envelope[M], w *worker) (v verdict, chosen bool) {
	var first Ref[M]
	var rest []Ref[M]
	r.route(e.msg, func(to Ref[M]) {
		if first.IsZero() {
			first = to
		} else {
			rest = append(rest, to)
		}
	})
	if first.IsZero() {
		return verdictGone, false
	}
	if len(rest) == 0 {
		return first.to.tell(e, w), true
	}
	var parts []part
	if ask, asked := askIn(e.with); asked {
		parts = split(ask, len(rest)+1)
	}
	r.passToAll(append(rest, first), parts, e, w)
	return verdictTaken, true
}

// passToAll sends the message to several, and with it each its part of a request, if it is one. The handler of an
// Inline actor may end the goroutine: those that come after it get theirs nevertheless.
func (r *routed[M]) passToAll(to []Ref[M], parts []part, e envelope[M], w *worker) {
	i := 0
	defer func() {
		if i < len(to) {
			r.passToAll(to[i:], parts[min(i, len(parts)):], e, w)
		}
	}()
	for i < len(to) {
		one, e := to[i].to, e
		var ask *part
		if parts != nil {
			ask = &parts[i]
			e.with = withAsk(e.with, ask)
		}
		i++
		v := one.tell(e, w)
		switch {
		case v == verdictTaken:
		case e.isEvent(): // a dead letter would be the next one
			r.owner.sys().listeners.missed.Add(1)
		default:
			r.owner.sys().deadLetter(one.base(), e.from(), e.msg, v.reason())
			if ask != nil {
				ask.reject(v.err(), w)
			}
		}
	}
}
