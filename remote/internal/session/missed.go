package session

import "github.com/greenroom-go/greenroom/remote/internal/wire"

// sift takes out of the log what was sent to other incarnations of the peer than the one with which
// the session is being opened for the first time: that one would only find nobody. It returns it for
// [Handler.Missed], nil for nothing. Nothing was handed yet. The mutex is held.
func (s *Session) sift(inc uint32) *Loss {
	if s.host.config.IncarnationOf == nil || s.log.total == 0 {
		return nil
	}
	all := &Loss{log: &s.log, texts: s.names.asOf(), asks: s.asks}
	missed := &Loss{Err: ErrIncarnation, log: new(log), texts: s.names.asOf()}
	var kept log
	replaced := s.names.replaced
	all.log.each(func(place uint64, frame wire.Frame) {
		for len(replaced) > 0 && replaced[0].place == place {
			replaced[0].place = kept.total + 1
			replaced = replaced[1:]
		}
		if frame.Kind == wire.KindDefine {
			all.define(frame)
			missed.log.keep(frame)
			kept.keep(frame)
			return
		}
		u, ok := all.undelivered(frame)
		if !ok || s.meant(u.To, inc) {
			kept.keep(frame)
			return
		}
		missed.log.keep(frame)
		if frame.Kind == wire.KindTell || frame.Kind == wire.KindAsk {
			missed.Sent++
			missed.Dropped++
		}
		if u.Ask != nil {
			missed.Asks = append(missed.Asks, s.endAsk(frame))
		}
	})
	if kept.total == s.log.total {
		return nil
	}
	s.log = kept
	s.stats.missed = missed.Sent
	return missed
}

// meant reports whether an address may be one of an incarnation of the peer.
func (s *Session) meant(address string, inc uint32) bool {
	if of := s.host.config.IncarnationOf; of != nil && address != "" {
		named := of(address)
		return named == 0 || named == inc
	}
	return true
}

// endAsk ends the ask of a message that is not sent.
func (s *Session) endAsk(frame wire.Frame) Asker {
	var m wire.Message
	_ = wire.ReadMessage(&m, frame.Kind, frame.Body) // this node has written it
	return s.asks.take(m.Ask)
}

// keep appends a frame that was kept before.
func (l *log) keep(frame wire.Frame) {
	c := l.reserve(frame.Size())
	l.commit(c, wire.AppendFrame(c.data, frame.Kind, frame.Body))
}
