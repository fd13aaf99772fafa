package actor

import "sync/atomic"

// part is a request that went to several actors, as one of them has it, wherever it passes the request on to. It ends
// once: with its first answer or rejection, or when the whole does. The whole is rejected when all its parts are.
type part struct {
	pendingAsk               // the whole, which may be a part itself
	left       *atomic.Int32 // how many parts of the whole are not rejected
	state      atomic.Uint32 // partOpen, partAnswered or partRejected
}

// What a part is.
const (
	partOpen uint32 = iota
	partAnswered
	partRejected
)

// split returns a request in n parts.
func split(whole pendingAsk, n int) []part {
	whole.passTo(nil) // any of them may answer
	left := new(atomic.Int32)
	left.Store(int32(n))
	parts := make([]part, n)
	for i := range parts {
		parts[i].pendingAsk, parts[i].left = whole, left
	}
	return parts
}

func (p *part) reject(err error, w *worker) bool {
	if !p.end(partRejected) || p.left.Add(-1) > 0 {
		return false
	}
	return p.pendingAsk.reject(err, w)
}

// end reports whether the part was open; then it is no more.
func (p *part) end(how uint32) bool { return p.state.CompareAndSwap(partOpen, how) }

func (p *part) over() bool { return p.state.Load() != partOpen || p.pendingAsk.over() }

func (p *part) settle(decode func(into any) error) (bool, error) {
	if p.over() {
		return false, nil
	}
	ended, err := p.pendingAsk.settle(decode)
	if err == nil {
		p.end(partAnswered)
	}
	return ended, err
}

// passTo does nothing: others may answer as well.
func (*part) passTo(*core) {}

// answered reports whether this one has answered. Where another one has, this one is not to go on for an answer that
// nobody waits for.
func (p *part) answered() bool { return p.state.Load() != partOpen }

// answerable is a request whose answer is an R, or, if it has come from another system, may be one.
type answerable[R any] interface {
	pendingAsk
	reply(answer R, w *worker) bool
}

// answerableOf returns the request that comes with a message, nil if there is none or its answer is no R.
func answerableOf[R any](with any) answerable[R] {
	switch ask := with.(type) {
	case *call[R]:
		return ask
	case *FarRequest:
		return farAnswerable[R]{ask}
	case *part:
		if whole := answerableOf[R](ask.pendingAsk); whole != nil {
			return answerablePart[R]{ask, whole}
		}
	}
	return nil
}

// answerablePart is a part of a request whose answer is an R.
type answerablePart[R any] struct {
	*part
	whole answerable[R]
}

func (a answerablePart[R]) reply(answer R, w *worker) bool {
	return a.end(partAnswered) && a.whole.reply(answer, w)
}
