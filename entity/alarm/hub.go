package alarm

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
)

// recentEvents is how many events are kept in memory for followers that keep up.
const recentEvents = 4096

// recentBytes bounds their size, about.
const recentBytes = 16 << 20

// eventBytes is about what an event occupies.
func eventBytes(ev *Event) int {
	n := 400 + len(ev.Alarm.Entity) + len(ev.Alarm.Message)
	for i := range ev.Alarm.Values {
		n += 72 + len(ev.Alarm.Values[i].Value.Text())
	}
	return n
}

// hub publishes events once they are durable.
type hub struct {
	mu     sync.Mutex
	recent []Event       // guarded by mu; without gaps, up to last
	bytes  int           // guarded by mu; of recent
	last   uint64        // guarded by mu
	more   chan struct{} // guarded by mu; closed when there are more
}

func newHub() *hub { return &hub{more: make(chan struct{})} }

// reset sets the last event after a start.
func (h *hub) reset(last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last != h.last {
		h.recent, h.bytes, h.last = nil, 0, last
		h.wake()
	}
}

// wake REQUIRES: h.mu held.
func (h *hub) wake() {
	close(h.more)
	h.more = make(chan struct{})
}

func (h *hub) publish(events []Event) {
	if len(events) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.recent) + len(events) - recentEvents; n > 0 {
		h.recent = slices.Delete(h.recent, 0, min(n, len(h.recent)))
	}
	h.recent = append(h.recent, events...)
	h.bytes = 0
	keep := len(h.recent)
	for ; keep > 0 && h.bytes <= recentBytes; keep-- {
		h.bytes += eventBytes(&h.recent[keep-1])
	}
	h.recent = slices.Delete(h.recent, 0, keep)
	h.last = events[len(events)-1].Seq
	h.wake()
}

// after returns the events after seq that are in memory, whether these are all, and a channel that
// is closed when there are more.
func (h *hub) after(seq uint64, limit int) (list []Event, complete bool, more chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq >= h.last {
		return nil, true, h.more
	}
	if len(h.recent) == 0 || h.recent[0].Seq > seq+1 {
		return nil, false, h.more
	}
	list = h.recent[seq+1-h.recent[0].Seq:]
	return slices.Clone(list[:min(limit, len(list))]), true, h.more
}

// LastEvent returns the number of the last event.
func (s *Service) LastEvent() uint64 {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.last
}

// Events returns events after a given one, in order, and waits for one until ctx ends. If the next
// ones are no longer kept, it continues with the first that is. A number beyond that of the last
// event comes from another store, and Events returns [entity.ErrInvalid].
func (s *Service) Events(ctx context.Context, after uint64, limit int) ([]Event, error) {
	if last := s.LastEvent(); after > last {
		return nil, fmt.Errorf("cursor: %w: the last event is %d, not %d", entity.ErrInvalid, last, after)
	}
	for {
		list, complete, more := s.hub.after(after, limit)
		if !complete {
			var err error
			if list, err = s.readEvents(ctx, after, limit); err != nil {
				return nil, err
			}
		}
		if len(list) > 0 {
			return list, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ctx.Done():
			return nil, ErrClosed
		}
	}
}

func (s *Service) readEvents(ctx context.Context, after uint64, limit int) ([]Event, error) {
	for from := eventKey(after + 1); ; {
		items, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: eventKind, From: from, Limit: limit})
		if err != nil || len(items) == 0 {
			return nil, err
		}
		list := make([]Event, 0, len(items))
		for i := range items {
			var ev Event
			if err := json.Unmarshal(items[i].Body, &ev); err != nil {
				s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a stored event of an alarm cannot be read and is passed over", slog.String("event", items[i].Key), slog.Any("error", err))
				continue
			}
			list = append(list, ev)
		}
		if len(list) > 0 {
			return list, nil
		}
		from = items[len(items)-1].Key + "\x00"
	}
}
