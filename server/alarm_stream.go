package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
)

const (
	eventAlarm = "alarm"
	// alarmEventsAtOnce is how many events of alarms are read at once.
	alarmEventsAtOnce = 256
)

type streamAlarmsRequest struct {
	alarmFilter
	// Where to resume: the id of an event.
	Cursor string `query:"cursor" example:"17"`
	// The same; takes precedence over cursor.
	LastEventID string `header:"Last-Event-ID"`
}

// stream sends what happens to alarms as server-sent events. The id of an event is its
// number; a reader that comes back with it, as Last-Event-ID or as the parameter cursor,
// gets what came in between, or the event reset where that is not kept any more.
func (a *alarmAPI) stream(w http.ResponseWriter, r *http.Request, in *streamAlarmsRequest) error {
	f := &alarmFeed{alarms: a.alarms, filter: &in.alarmFilter, after: a.alarms.LastEvent(), began: time.Now().UnixMilli()}
	var err error
	if f.severities, err = in.severities(); err != nil {
		return err
	}
	f.keeper = func() (func(*alarm.Alarm) bool, error) { return a.keeper(r.Context(), &in.alarmFilter) }
	if _, err = f.keeper(); err != nil {
		return err
	}
	cursor := in.Cursor
	if in.LastEventID != "" {
		cursor = in.LastEventID
	}
	if cursor != "" {
		if f.after, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return problemf(http.StatusBadRequest, "cursor must be the id of an event, not %q", shorten(cursor, 64))
		}
	}
	if r.Method == http.MethodHead { // whose answer has an end
		w.Header().Set("Content-Type", mediaEvents)
		return nil
	}
	leave, err := a.streams.places.enter(callerOf(r.Context()).who)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.streams.serving, cancel)()
	out := &eventWriter{w: w, rc: http.NewResponseController(w)}
	f.out = out
	out.open()
	f.run(ctx)
	return nil
}

// alarmFeed follows the events of alarms for one stream.
type alarmFeed struct {
	alarms     *alarm.Service
	filter     *alarmFilter
	severities []alarm.Severity
	keeper     func() (func(*alarm.Alarm) bool, error) // returns nil for all
	began      int64                                   // when the reader came
	after      uint64                                  // the last event that was done with
	out        outlet
}

func (f *alarmFeed) run(ctx context.Context) {
	f.out.alive(strconv.FormatUint(f.after, 10))
	for f.out.flush() == nil && ctx.Err() == nil {
		waiting, stop := context.WithTimeout(ctx, heartbeatEvery)
		events, err := f.alarms.Events(waiting, f.after, alarmEventsAtOnce)
		stop()
		switch {
		case err == nil:
			if f.send(ctx, events) != nil {
				return
			}
		case errors.Is(err, entity.ErrInvalid):
			f.after = f.alarms.LastEvent()
			f.reset("the cursor is of another store, or of events made after the backup that this one was restored from; read the present state")
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			f.out.alive(strconv.FormatUint(f.after, 10))
		default:
			return // the reader has left, or the server shuts down
		}
	}
}

func (f *alarmFeed) reset(reason string) {
	f.out.event(eventReset, strconv.FormatUint(f.after, 10), []byte(`{"reason":"`+reason+`"}`))
}

func (f *alarmFeed) send(ctx context.Context, events []alarm.Event) error {
	keep, err := f.keeper()
	if err != nil {
		return err
	}
	if events[0].Seq > f.after+1 {
		f.after = events[0].Seq - 1
		f.reset("the events after the cursor are no longer kept; read the present state")
	}
	for i := range events {
		ev := &events[i]
		f.after = ev.Seq
		a := &ev.Alarm
		if f.filter.Entity != "" && f.filter.Entity != a.Entity || f.filter.Rule != "" && f.filter.Rule != a.Rule ||
			len(f.severities) > 0 && !slices.Contains(f.severities, a.Severity) || keep != nil && (!keep(a) || !f.present(ctx, ev)) {
			continue
		}
		if body, err := encodeAlarmEvent(ev); err == nil {
			f.out.event(eventAlarm, strconv.FormatUint(ev.Seq, 10), body)
		}
	}
	return nil
}

// present reports whether an event is of an entity that was not deleted since: of those that
// are read again, some may be of one that had the id before.
func (f *alarmFeed) present(ctx context.Context, ev *alarm.Event) bool {
	if ev.At >= f.began {
		return true
	}
	a, err := f.alarms.Alarm(ctx, ev.Alarm.ID)
	return err == nil && !a.Deleted
}

// tellAlarms publishes what happens to alarms over MQTT, from now on until the server ends:
// to e/{id}/alarms of their entities. Those of alarms that are shelved are not told, but
// that they are.
func (s *Server) tellAlarms() {
	after := s.alarms.LastEvent()
	for {
		events, err := s.alarms.Events(s.serving, after, alarmEventsAtOnce)
		switch {
		case errors.Is(err, entity.ErrInvalid): // the service has begun anew with less
			after = s.alarms.LastEvent()
			continue
		case s.serving.Err() != nil, errors.Is(err, alarm.ErrClosed), errors.Is(err, entity.ErrClosed):
			return
		case err != nil:
			s.log.LogAttrs(s.serving, slog.LevelWarn, "MQTT: the events of alarms are read again", slog.Any("error", err))
			select {
			case <-time.After(time.Second):
			case <-s.serving.Done():
			}
			continue
		}
		for i := range events {
			ev := &events[i]
			after = ev.Seq
			if !ev.Tells() {
				continue
			}
			if body, err := encodeAlarmEvent(ev); err == nil {
				s.broker.Alarm(ev.Alarm.Entity, body)
			}
		}
	}
}
