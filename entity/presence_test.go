package entity_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// presence returns the presence of an entity as it is committed.
func (s *stage) presence(id string) entity.Presence {
	s.t.Helper()
	return s.entity(id).Presence
}

// settle lets what has begun be committed.
func settle() {
	_ = pause.For(context.Background(), 50*time.Millisecond) // it has no end
	synctest.Wait()
}

// is checks the state of a presence and the connection.
func (s *stage) is(id, what string, state entity.PresenceState, connected bool) {
	s.t.Helper()
	settle()
	if p := s.presence(id); p.State != state || p.Connected != connected {
		s.t.Errorf("%s: %s is %v, connected %v, want %v, %v", what, id, p.State, p.Connected, state, connected)
	}
}

// transitions returns how often devices came to be online and offline.
func (s *stage) transitions() [2]uint64 {
	stats := s.Stats()
	return [2]uint64{stats.WentOnline, stats.WentOffline}
}

const (
	online  = entity.PresenceOnline
	offline = entity.PresenceOffline
	unknown = entity.PresenceUnknown
)

func TestADeviceIsOnlineFromItsMessagesForTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute})
		s.edit("d", entity.Edits{})
		s.is("d", "at first", unknown, false)
		began := time.Now().UnixMilli()
		s.Seen("d")
		s.is("d", "after a message", online, false)
		if p := s.presence("d"); p.Since != began || p.Seen != began {
			t.Errorf("at %d it is online since %d and was seen at %d", began, p.Since, p.Seen)
		}
		for range 5 {
			time.Sleep(50 * time.Second)
			s.Seen("d")
		}
		last := time.Now().UnixMilli()
		time.Sleep(59 * time.Second)
		s.is("d", "just before the timeout", online, false)
		if p := s.presence("d"); p.Since != began || p.Seen != last {
			t.Errorf("it is online since %d and was seen at %d, want %d and %d", p.Since, p.Seen, began, last)
		}
		time.Sleep(2 * time.Second) // the timeout, and a second to find it
		s.is("d", "a second after the timeout", offline, false)
		if p := s.presence("d"); p.Seen != last || p.Since < last+60_000 || p.Since > last+61_000 {
			t.Errorf("it is offline since %d and was seen at %d, want a minute after %d", p.Since, p.Seen, last)
		}
		s.Seen("d")
		s.is("d", "when it speaks again", online, false)
		if got := s.transitions(); got != [2]uint64{2, 1} {
			t.Errorf("it came to be online and offline %d times", got)
		}
	})
}

func TestAReconnectWithinTheGraceChangesNoPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute, PresenceGrace: 5 * time.Second})
		s.edit("d", entity.Edits{})
		end := s.Connect("d")
		s.is("d", "connected", online, true)
		time.Sleep(10 * time.Minute)
		s.is("d", "silent for ten minutes with a connection", online, true)
		for range 20 {
			end()
			end() // has no effect
			time.Sleep(4 * time.Second)
			s.is("d", "within the grace", online, true)
			end = s.Connect("d")
			time.Sleep(time.Minute)
		}
		second := s.Connect("d") // before the server has found the first one dead
		end()
		time.Sleep(time.Minute)
		s.is("d", "with the second of two connections", online, true)
		if got := s.transitions(); got != [2]uint64{1, 0} {
			t.Errorf("it came to be online and offline %d times", got)
		}
		second()
		s.Seen("d") // at the same time by another way
		time.Sleep(6 * time.Second)
		s.is("d", "heard of after its connection was lost", online, false)
		time.Sleep(time.Minute)
		s.is("d", "and silent since", offline, false)
		s.Connect("d")()
		time.Sleep(4 * time.Second)
		s.is("d", "connected for a moment", online, false)
		time.Sleep(2 * time.Second)
		s.is("d", "after the grace", offline, false)
	})
}

func TestAGatewayKeepsNobodyOnlineWhoIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute, PresenceGrace: 5 * time.Second})
		for _, id := range []string{"quiet", "loud"} {
			s.edit(id, entity.Edits{})
		}
		ends := []func(){s.ConnectVia("quiet"), s.ConnectVia("loud")}
		s.Seen("quiet")
		s.Seen("loud")
		s.is("quiet", "at first", online, true)
		for range 3 {
			time.Sleep(40 * time.Second)
			s.Seen("loud")
		}
		s.is("quiet", "silent behind its gateway", offline, false)
		s.is("loud", "heard of", online, true)
		for _, end := range ends {
			end()
		}
		time.Sleep(6 * time.Second)
		s.is("loud", "after its gateway was lost", online, false)
		time.Sleep(50 * time.Second)
		s.is("loud", "when its gateway is back, and it was silent", online, false)
		time.Sleep(6 * time.Second)
		s.is("loud", "after the timeout", offline, false)
		if n := s.Present(); n != 0 {
			t.Errorf("%d are remembered of whom none is online", n)
		}
	})
}

func TestAReconnectBesideAGatewayChangesNoPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute, PresenceGrace: 5 * time.Second})
		s.edit("d", entity.Edits{})
		s.ConnectVia("d")
		s.Seen("d")
		end := s.Connect("d")
		time.Sleep(10 * time.Minute)
		end()
		time.Sleep(4 * time.Second)
		s.is("d", "within the grace", online, true)
		s.Connect("d")
		s.is("d", "connected again", online, true)
		if got := s.transitions(); got != [2]uint64{1, 0} {
			t.Errorf("it came to be online and offline %d times", got)
		}
	})
}

func TestADeviceIsOnlineWhoseEntityComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{})
		s.Connect("d")
		settle()
		s.write("d", s.parse(`{"t":1}`)...) // by somebody else
		s.is("d", "with a connection", online, true)
	})
}

// TestACrashMakesNobodyOffline has a device speak every four minutes, and the process crash at all
// moments between what it saves of that.
func TestACrashMakesNobodyOffline(t *testing.T) {
	for _, after := range []time.Duration{30, 150, 299, 301, 420, 500, 590, 700} {
		synctest.Test(t, func(t *testing.T) {
			cfg := entity.Config{PresenceTimeout: 10 * time.Minute}
			s := open(t, t.TempDir(), cfg)
			s.edit("d", entity.Edits{})
			began := time.Now()
			end := began.Add(after * time.Second)
			last := began
			for ; last.Before(end); last = last.Add(4 * time.Minute) {
				time.Sleep(time.Until(last))
				s.Seen("d")
			}
			last = last.Add(-4 * time.Minute)
			time.Sleep(time.Until(end))
			settle()
			crashed := t.TempDir()
			if err := os.CopyFS(crashed, os.DirFS(s.dir)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			s = open(t, crashed, cfg)
			time.Sleep(time.Until(last.Add(10*time.Minute - time.Second)))
			s.is("d", "just before its timeout", online, false)
			time.Sleep(entity.SeenEvery + 3*time.Second)
			s.is("d", "after what may not have been saved", offline, false)
		})
	}
}

func TestAColdEntityGoesOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: 10 * time.Minute, IdleAfter: 5 * time.Second})
		s.edit("d", entity.Edits{})
		s.Seen("d")
		time.Sleep(time.Minute)
		if s.IsLive("d") {
			t.Fatal("the entity is still hot")
		}
		seen := time.Now().UnixMilli()
		s.Seen("d") // a message of which the entity itself learns nothing
		time.Sleep(10*time.Minute - time.Second)
		if s.IsLive("d") {
			t.Error("a message brought a cold entity to life though its presence did not change")
		}
		time.Sleep(2 * time.Second)
		s.is("d", "a second after the timeout", offline, false)
		if p := s.presence("d"); p.Seen != seen {
			t.Errorf("it was seen at %d, want %d", p.Seen, seen)
		}
	})
}

func TestPresencesSurviveARestartAndHaveTimeToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := entity.Config{PresenceTimeout: 10 * time.Minute, PresenceGrace: 5 * time.Second, PresenceReturn: time.Minute}
		s := open(t, t.TempDir(), cfg)
		for _, id := range []string{"back", "lost", "silent", "late"} {
			s.edit(id, entity.Edits{})
		}
		s.Connect("back")
		s.Connect("lost")
		s.Seen("silent")
		s.Seen("late")
		settle()
		since := s.presence("back").Since
		time.Sleep(8 * time.Minute)
		s.Seen("late")
		said := time.Now().UnixMilli()
		s = s.reopen(cfg)
		s.is("back", "after the restart", online, true)
		if p := s.presence("late"); p.Seen != said {
			t.Errorf("after the restart it was seen at %d, want %d", p.Seen, said)
		}
		time.Sleep(50 * time.Second)
		s.Connect("back")
		s.is("lost", "with time left to come back", online, true)
		time.Sleep(20 * time.Second)
		s.is("back", "after it has come back", online, true)
		s.is("lost", "after it has not come back", offline, false)
		s.is("silent", "within its timeout", online, false)
		if p := s.presence("back"); p.Since != since {
			t.Errorf("who came back is online since %d, was since %d", p.Since, since)
		}
		time.Sleep(2*time.Minute + entity.SeenEvery)
		s.is("silent", "after its timeout, and what a crash may have left unsaved", offline, false)
		s.is("late", "within its timeout", online, false)
	})
}

func TestACrashLosesNoTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := entity.Config{PresenceTimeout: 10 * time.Minute}
		s := open(t, t.TempDir(), cfg)
		s.edit("d", entity.Edits{})
		s.edit("gone", entity.Edits{})
		s.Seen("gone")
		time.Sleep(9 * time.Minute)
		s.Seen("d")
		time.Sleep(2 * time.Minute)
		var last int64
		for range 200 { // of which the last is not older than SeenEvery in the store
			time.Sleep(10 * time.Second)
			s.Seen("d")
			last = time.Now().UnixMilli()
		}
		s.is("gone", "silent", offline, false)
		before := s.presence("gone")
		crashed := t.TempDir()
		if err := os.CopyFS(crashed, os.DirFS(s.dir)); err != nil {
			t.Fatal(err)
		}
		s = open(t, crashed, cfg)
		if late := time.Duration(last-s.presence("d").Seen) * time.Millisecond; late > entity.SeenEvery+time.Second {
			t.Errorf("what is left of the last message is %v old, want at most %v", late, entity.SeenEvery)
		}
		s.is("d", "after the crash", online, false)
		if now := s.presence("gone"); now != before {
			t.Errorf("after the crash it is %+v, was %+v", now, before)
		}
	})
}

func TestTheTimeoutIsThatOfTheType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute, PresenceGrace: 5 * time.Second})
		put := func(id string, p *model.Presence, extends ...string) {
			t.Helper()
			if _, err := s.PutType(t.Context(), &model.Type{ID: id, Presence: p, Extends: extends}, ""); err != nil {
				t.Fatal(err)
			}
		}
		put("Sleeper", &model.Presence{Timeout: "20m", Grace: "10m"})
		put("Meter", nil, "Sleeper")
		put("Beacon", &model.Presence{Timeout: model.NoTimeout})
		for id, typ := range map[string]string{"meter": "Meter", "beacon": "Beacon", "plain": ""} {
			s.edit(id, entity.Edits{Type: &typ})
			s.Seen(id)
		}
		end := s.Connect("meter")
		settle()
		end()
		time.Sleep(9 * time.Minute)
		s.is("plain", "after the server's timeout", offline, false)
		s.is("meter", "within the grace that it inherits", online, true)
		s.Seen("meter")
		time.Sleep(17 * time.Minute)
		s.is("meter", "within the timeout that it inherits", online, false)
		put("Sleeper", &model.Presence{Timeout: "15m"})
		time.Sleep(time.Second)
		s.is("meter", "when the timeout is less than it was silent for", offline, false)
		time.Sleep(15 * time.Minute)
		s.is("beacon", "without a timeout", online, false)
		typ := "Meter"
		s.edit("beacon", entity.Edits{Type: &typ})
		time.Sleep(time.Second)
		s.is("beacon", "of another type", offline, false)
	})
}

func TestTransitionsAreInTheStreamOfThoseWhoAskForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute})
		s.edit("d", entity.Edits{})
		without, err := s.Changes(t.Context(), entity.ChangesQuery{Edits: true, Commands: true})
		if err != nil {
			t.Fatal(err)
		}
		defer without.Close()
		live, err := s.Changes(t.Context(), entity.ChangesQuery{Presence: true})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		from := live.Cursor()
		s.Seen("d")
		time.Sleep(2 * time.Minute)
		s.write("d", oneReading())
		log, err := s.Changes(t.Context(), entity.ChangesQuery{Presence: true, Cursor: from})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		for name, sub := range map[string]*entity.Subscription{"live": live, "the log": log} {
			var got []entity.PresenceState
			for range 2 {
				c, err := sub.Next(t.Context())
				if err != nil || c.Presence == nil || c.Entity != "d" || c.TS < c.Presence.Since || c.Edit != nil {
					t.Fatalf("%s has %+v, %v", name, c, err)
				}
				got = append(got, c.Presence.State)
			}
			if !reflect.DeepEqual(got, []entity.PresenceState{online, offline}) {
				t.Errorf("%s has %v", name, got)
			}
			if c, err := sub.Next(t.Context()); err != nil || len(c.Values) != 1 {
				t.Errorf("%s goes on with %+v, %v", name, c, err)
			}
		}
		if c, err := without.Next(t.Context()); err != nil || len(c.Values) != 1 {
			t.Errorf("who does not ask for presences gets %+v, %v", c, err)
		}
	})
}

func TestAPresenceEndsWithItsEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute, PresenceGrace: 5 * time.Second})
		end := s.Connect("d") // before there is one
		s.Seen("nobody")
		settle()
		if n := s.Present(); n != 1 {
			t.Errorf("%d are remembered, of whom one has a connection", n)
		}
		s.edit("d", entity.Edits{})
		s.is("d", "made after its device has connected", online, true)
		if err := s.Delete(t.Context(), "d", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.write("d", oneReading())
		s.Seen("d")
		s.is("d", "made again by its device", online, true)
		if err := s.Delete(t.Context(), "d", ""); err != nil {
			t.Fatal(err)
		}
		end()
		time.Sleep(time.Minute)
		if stats := s.Stats(); s.Present() != 0 || stats.Online != 0 || stats.Connected != 0 {
			t.Errorf("%d are remembered, %d online, %d connected", s.Present(), stats.Online, stats.Connected)
		}
		s.edit("d", entity.Edits{})
		s.is("d", "made again by somebody", unknown, false)
	})
}

func TestManyAreFoundOfflineTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const devices = 1100 // more than are asked at a time
		s := open(t, t.TempDir(), entity.Config{PresenceTimeout: time.Minute})
		for i := range devices {
			id := fmt.Sprintf("d%d", i)
			if err := s.Ingest(t.Context(), id, []entity.Reading{oneReading()}, 0, func(error) { s.Seen(id) }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := s.Stats().Online; n != devices {
			t.Errorf("%d are online", n)
		}
		time.Sleep(2 * time.Minute)
		if stats := s.Stats(); stats.Online != 0 || s.transitions() != [2]uint64{devices, devices} || s.Present() != 0 {
			t.Errorf("%d are online after %d transitions", stats.Online, s.transitions())
		}
	})
}

func oneReading() entity.Reading {
	return entity.Reading{TS: 1, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}}}
}
