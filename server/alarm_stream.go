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
	// alarmEventsAtOnce is how many events of alarms are read at a time.
	alarmEventsAtOnce = 256
)

type streamAlarmsRequest struct {
	alarmFilter
	// Where to resume: the id of an event.
	Cursor string `query:"cursor" example:"17"`
	// The same; takes precedence over cursor.
	LastEventID string `header:"Last-Event-ID"`
}

// stream sends changes of alarms as server-sent events. The id of an event is its number. A reader
// that resumes with it, as Last-Event-ID or as the parameter cursor, receives the events in
// between, or the event reset if they are no longer kept.
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
	if r.Method == http.MethodHead { // whose response must end
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
	began      int64                                   // when the reader connected
	after      uint64                                  // the last event that was handled
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
			return // the reader has left, or the server is shutting down
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

// present reports whether the entity of an event has not been deleted since. Old events may be
// about a previous entity with the same id.
func (f *alarmFeed) present(ctx context.Context, ev *alarm.Event) bool {
	if ev.At >= f.began {
		return true
	}
	a, err := f.alarms.Alarm(ctx, ev.Alarm.ID)
	return err == nil && !a.Deleted
}

// tellAlarms publishes changes of alarms over MQTT, from now on until the server stops: to
// e/{id}/alarms of their entities. Of a shelved alarm, it publishes only the shelving.
func (s *Server) tellAlarms() {
	after := s.alarms.LastEvent()
	for {
		events, err := s.alarms.Events(s.serving, after, alarmEventsAtOnce)
		switch {
		case errors.Is(err, entity.ErrInvalid): // the service has restarted with fewer events
			after = s.alarms.LastEvent()
			continue
		case s.serving.Err() != nil, errors.Is(err, alarm.ErrClosed), errors.Is(err, entity.ErrClosed):
			return
		case err != nil:
			s.log.LogAttrs(s.serving, slog.LevelWarn, "MQTT: cannot read the events of alarms; trying again", slog.Any("error", err))
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
