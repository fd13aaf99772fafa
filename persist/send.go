package persist

import (
	"fmt"
	"time"
)

// send records a message to be delivered.
func (in *incarnation) send(to string, m any) {
	if err := checkText("receiver", to, 1); err != nil {
		panic("persist: Send: " + err.Error())
	}
	payload := in.encoded("Send", m)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.requireHandler("Send")
	in.sent++
	payload.Seal(in.id, in.sent)
	in.sends = append(in.sends, Message{Number: in.sent, To: to, Payload: *payload})
	in.recorded += len(payload.Data)
}

// remind sets a reminder.
func (in *incarnation) remind(key string, at time.Time, m any) {
	if err := checkText("key", key, 1); err != nil {
		panic("persist: Remind: " + err.Error())
	}
	payload := in.encoded("Remind", m)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.requireHandler("Remind")
	payload.Seal(in.id, 0)
	in.edits = append(in.edits, ReminderEdit{Key: key, At: max(at.Add(time.Millisecond-1).UnixMilli(), 1), Payload: *payload})
	in.recorded += len(payload.Data)
}

// forget removes a reminder.
func (in *incarnation) forget(key string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.requireHandler("Forget")
	_, set := in.reminders[key]
	for _, r := range in.edits {
		set = set || r.Key == key
	}
	if set {
		in.edits = append(in.edits, ReminderEdit{Key: key})
	}
}

func (in *incarnation) encoded(what string, m any) *Payload {
	p, err := in.p.payload(m)
	if err != nil {
		panic(fmt.Sprintf("persist: %s: %v", what, err))
	}
	return p
}

// hasHad reports whether the actor has already handled what an attempt delivers.
func (in *incarnation) hasHad(a *attempt) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.had(a)
}

// had is hasHad. REQUIRES: in.mu held.
func (in *incarnation) had(a *attempt) bool {
	if a.reminder.Key != "" {
		return in.reminders[a.reminder.Key] != dueOf(&a.reminder)
	}
	return in.seen[a.from] >= a.number
}

// takeAttempt returns what the next unit records about the message being handled, and its
// reminders. Only the last part of a divided handler records that the message was handled. Changes
// to the key of the reminder being handled go with the last part as well: earlier they would
// replace the reminder, and a handler that then fails would not get it again. REQUIRES: in.mu held.
func (in *incarnation) takeAttempt(goesOn bool) (seen []Seen, edits, later []ReminderEdit) {
	a := in.attempt
	switch {
	case a == nil || in.had(a):
		return nil, in.edits, nil
	case a.reminder.Key == "" && goesOn:
		return nil, in.edits, nil
	case a.reminder.Key == "":
		in.seen[a.from] = a.number
		return []Seen{{From: a.from, Number: a.number}}, in.edits, nil
	case !goesOn: // first: the handler may have set it again
		return nil, append([]ReminderEdit{{Key: a.reminder.Key}}, in.edits...), nil
	}
	for _, e := range in.edits {
		if e.Key == a.reminder.Key {
			later = append(later, e)
		} else {
			edits = append(edits, e)
		}
	}
	return nil, edits, later
}
