package schedule

import "time"

// cronRule is the rule of an expression.
//
// The search over the calendar is done on the wall: a time of UTC stands for what the
// clocks of the zone show. UTC has no clock changes, so the search has no special cases,
// and where an hour is missing or comes twice is decided here and nowhere else.
type cronRule struct {
	expr     string
	loc      *time.Location
	calendar interface{ Next(time.Time) time.Time } // on the wall
	pattern  bool                                   // or else a time of day
}

func (c *cronRule) String() string { return c.expr }

func (c *cronRule) next(after time.Time) time.Time {
	after = after.In(c.loc)
	if c.pattern {
		return c.nextFit(after)
	}
	wall := c.calendar.Next(shown(after))
	if wall.IsZero() {
		return wall
	}
	return c.reached(wall)
}

// nextFit returns the next time at which the clock fits the pattern. Between two
// changes the clock goes on evenly, so it looks from change to change.
func (c *cronRule) nextFit(after time.Time) time.Time {
	from := onWall(after)
	for t := after; ; {
		wall := c.calendar.Next(from)
		if wall.IsZero() {
			return wall
		}
		_, end := t.ZoneBounds()
		if due := wall.Add(-offset(t)); end.IsZero() || due.Before(end) {
			return due.In(c.loc)
		}
		t = end
		from = onWall(end).Add(-1) // what the clock shows at the change itself counts
	}
}

// reached returns the first time at which the clock has reached what it is to show: the
// moment of the change, if it never shows just that.
func (c *cronRule) reached(wall time.Time) time.Time {
	// No zone is further than that from UTC, so this is before any change that matters.
	t := wall.Add(-48 * time.Hour).In(c.loc)
	for {
		_, end := t.ZoneBounds()
		due := wall.Add(-offset(t))
		if due.Before(t) {
			return t // left out: the clock was set forward over it
		}
		if end.IsZero() || due.Before(end) {
			return due.In(c.loc)
		}
		t = end
	}
}

// shown returns the latest that the clock has shown up to t. It differs from what it
// shows at t when the clock was set back.
func shown(t time.Time) time.Time {
	wall := onWall(t)
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return wall
	}
	before := start.Add(-1)
	if latest := onWall(before); latest.After(wall) {
		return latest
	}
	return wall
}

// onWall returns what the clock of t's zone shows, as a time of UTC.
func onWall(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
