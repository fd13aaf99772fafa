package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

func newJournalIsEmpty(k *kit) {
	info := k.j.Info()
	if info.Kind == "" || info.Identity == "" {
		k.Errorf("info: %+v", info)
	}
	k.equal("loaded", k.load("a"), persist.Loaded{ID: "a"})
	if ids, err := k.j.IDs(k.ctx(), "", 10); err != nil || len(ids) > 0 {
		k.Errorf("ids: %v, %v", ids, err)
	}
	for part := range persist.Parts {
		if len(k.feed(part)) > 0 || len(k.outbox(part)) > 0 || len(k.due(part, math.MaxInt64)) > 0 {
			k.Errorf("part %d is not empty", part)
		}
	}
	if s, err := k.j.Snapshot(k.ctx(), "a", 10); err != nil || s.Number != 0 {
		k.Errorf("snapshot: %+v, %v", s, err)
	}
	cursors, err := k.j.Cursors(k.ctx(), "p")
	if err != nil || len(cursors) != persist.Parts || slices.Max(cursors) != 0 {
		k.Errorf("cursors: %v, %v", cursors, err)
	}
}

func committedIsFound(k *kit) {
	b := k.batch(
		persist.Append{
			ID: "a", Events: payloads("one", "two"), Snapshot: new(payload("a2")),
			Send:      []persist.Message{{Number: 3, To: "b", Payload: payload("hello")}},
			Seen:      []persist.Seen{{From: "c", Number: 7}},
			Reminders: []persist.ReminderEdit{{Key: "k", At: 5, Payload: payload("wake")}},
		},
		persist.Append{ID: "b", State: new(payload("state"))},
		persist.Append{ID: "a", After: 2, Events: payloads("three")},
	)
	b.Cursors = []persist.Cursor{{Projection: "p", Part: 3, Position: 9}}
	k.commitBatch(b)
	for _, when := range []string{"before", "after"} {
		a := k.load("a")
		if a.Last != 3 || a.Sent != 3 || a.Snapshot == nil || a.Snapshot.Number != 2 || string(a.Snapshot.Data) != "a2" || a.State != nil {
			k.Fatalf("%s the crash: %s", when, describe(&a))
		}
		k.equal("events after the snapshot", texts(a.Events), []string{"a/3 three"})
		k.equal("all events", texts(k.events("a", 0)), []string{"a/1 one", "a/2 two", "a/3 three"})
		if r := k.events("a", 0)[0]; r.Time != b.Time || r.Type != "test.event" || r.Sum != 3 || r.Position == 0 || r.Erased {
			k.Errorf("record: %+v", r)
		}
		k.equal("seen", a.Seen, []persist.Seen{{From: "c", Number: 7}})
		k.equal("reminders", a.Reminders, []persist.Reminder{{ID: "a", ReminderEdit: persist.ReminderEdit{Key: "k", At: 5, Payload: payload("wake")}}})
		if s := k.load("b"); s.Last != 1 || s.State == nil || s.State.Number != 1 || string(s.State.Data) != "state" {
			k.Errorf("%s the crash: %s", when, describe(&s))
		}
		cursors, err := k.j.Cursors(k.ctx(), "p")
		if err != nil || cursors[3] != 9 || cursors[4] != 0 {
			k.Errorf("%s the crash: cursors %v, %v", when, cursors, err)
		}
		k.crash()
	}
	k.commit(persist.Append{ID: "a", After: 3, Events: payloads("four")})
	k.equal("after the crash", texts(k.events("a", 3)), []string{"a/4 four"})
}

func payloadsComeBack(k *kit) {
	list := []persist.Payload{
		{},
		{Type: "t"},
		{Type: "t", Data: []byte{}},
		{Type: "t", Data: []byte{0, 255, '\'', '\n'}, Sum: math.MaxUint32},
		{Type: strings.Repeat("n", 128), Data: bytes.Repeat([]byte{7}, persist.PageBytes+1)},
		{Type: "last", Data: []byte("x")},
	}
	id := strings.Repeat("é", persist.MaxIDBytes/2)
	for i, p := range list {
		k.commit(persist.Append{
			ID: id, After: uint64(i), Events: []persist.Payload{p}, State: &p,
			Send:      []persist.Message{{Number: uint64(i + 1), To: id, Payload: p}},
			Reminders: []persist.ReminderEdit{{Key: id, At: 1, Payload: p}},
		})
		l := k.load(id)
		for what, got := range map[string]persist.Payload{
			"event": k.events(id, uint64(i))[0].Payload, "state": l.State.Payload, "reminder": l.Reminders[0].Payload, "due": k.due(persist.PartOf(id), 1)[0].Payload,
		} {
			if got.Type != p.Type || !bytes.Equal(got.Data, p.Data) || got.Sum != p.Sum {
				k.Errorf("%s %d has come back as another: type %q, %d bytes, sum %d", what, i, got.Type, len(got.Data), got.Sum)
			}
		}
	}
	k.crash()
	for i, r := range k.events(id, 0) {
		if r.Type != list[i].Type || !bytes.Equal(r.Data, list[i].Data) || r.Sum != list[i].Sum {
			k.Errorf("event %d has come back as another after the crash", i)
		}
	}
	for i, o := range k.outbox(persist.PartOf(id)) {
		if o.Type != list[i].Type || !bytes.Equal(o.Data, list[i].Data) || o.Sum != list[i].Sum || o.From != id || o.To != id {
			k.Errorf("message %d has come back as another after the crash", i)
		}
	}
}

func nothingIsShared(k *kit) {
	data := []byte("abc")
	p := persist.Payload{Type: "t", Data: data}
	k.commit(persist.Append{ID: "a", Events: []persist.Payload{p}, State: &p, Snapshot: &p})
	copy(data, "xyz")
	for range 2 {
		l := k.load("a")
		for what, got := range map[string][]byte{"event": k.events("a", 0)[0].Data, "state": l.State.Data, "snapshot": l.Snapshot.Data} {
			k.equal(what, string(got), "abc")
			copy(got, "uvw")
		}
	}
}

func refusedConcernNobodyElse(k *kit) {
	k.commit(persist.Append{ID: "b", Events: payloads("b1")})
	b := k.batch(
		persist.Append{ID: "a", Events: payloads("a1")},
		persist.Append{
			ID: "b", Events: payloads("wrong"), State: new(payload("wrong")), Snapshot: new(payload("wrong")),
			Send: []persist.Message{{Number: 1, To: "x", Payload: payload("wrong")}},
			Seen: []persist.Seen{{From: "x", Number: 1}}, Reminders: []persist.ReminderEdit{{Key: "x", At: 1}},
		},
		persist.Append{ID: "c", Events: payloads("c1")},
		persist.Append{ID: "b", After: 1, Events: payloads("after one that was refused")},
		persist.Append{ID: "c", After: 7, Events: payloads("wrong")},
		persist.Append{ID: "a", After: 1, Events: payloads("a2")},
		persist.Append{ID: "never", After: 1, Events: payloads("wrong")},
	)
	b.Appends[0].Err = errors.New("left from before")
	if err := k.j.Commit(k.ctx(), b); err != nil {
		k.Fatal(err)
	}
	for range 2 {
		for i, refused := range []bool{false, true, false, true, true, false, true} {
			if err := b.Appends[i].Err; refused != errors.Is(err, persist.ErrConflict) || refused != errors.Is(err, persist.ErrFenced) {
				k.Errorf("append %d: %v, should have been refused: %v", i, err, refused)
			}
		}
		k.equal("a", texts(k.load("a").Events), []string{"a/1 a1", "a/2 a2"})
		l := k.load("b")
		k.equal("b", texts(l.Events), []string{"b/1 b1"})
		if l.Last != 1 || l.State != nil || l.Snapshot != nil || l.Sent != 0 || len(l.Seen)+len(l.Reminders) > 0 {
			k.Errorf("b: %s", describe(&l))
		}
		k.equal("c", texts(k.load("c").Events), []string{"c/1 c1"})
		k.equal("never", k.load("never"), persist.Loaded{ID: "never"})
		if len(k.outbox(persist.PartOf("b"))) > 0 {
			k.Error("the message of a refused append is in the outbox")
		}
		k.crash()
	}
}

func appendsFollowEachOther(k *kit) {
	k.commit(
		persist.Append{ID: "a", Events: payloads("1", "2")},
		persist.Append{ID: "b", Events: payloads("1")},
		persist.Append{ID: "a", After: 2, Snapshot: new(payload("s2"))},
		persist.Append{ID: "a", After: 2, Events: []persist.Payload{{}}, Seen: []persist.Seen{{From: "x", Number: 1}}},
		persist.Append{ID: "b", After: 1, State: new(payload("s"))},
		persist.Append{ID: "a", After: 3, Events: payloads("4")},
		persist.Append{ID: "b", After: 2, Events: payloads("3", "4"), State: new(payload("s"))},
	)
	k.crash()
	a, b := k.load("a"), k.load("b")
	k.equal("a", texts(a.Events), []string{"a/3 ", "a/4 4"})
	k.equal("a", []uint64{a.Last, a.Snapshot.Number}, []uint64{4, 2})
	k.equal("b", texts(b.Events), []string{"b/1 1", "b/3 3", "b/4 4"})
	k.equal("b", []uint64{b.Last, b.State.Number}, []uint64{4, 4})
}

func sameBatchAgain(k *kit) {
	k.commit(persist.Append{ID: "b", Events: payloads("b1")})
	b := k.batch(
		persist.Append{ID: "a", Events: payloads("1"), Send: []persist.Message{{Number: 1, To: "x", Payload: payload("m")}}},
		persist.Append{ID: "b", Events: payloads("wrong")},
		persist.Append{ID: "a", After: 1, Events: payloads("2")},
	)
	for range 3 {
		if err := k.j.Commit(k.ctx(), b); err != nil {
			k.Fatal(err)
		}
		if b.Appends[0].Err != nil || !errors.Is(b.Appends[1].Err, persist.ErrConflict) || b.Appends[2].Err != nil {
			k.Fatalf("errors: %v, %v, %v", b.Appends[0].Err, b.Appends[1].Err, b.Appends[2].Err)
		}
	}
	k.equal("events", texts(k.events("a", 0)), []string{"a/1 1", "a/2 2"})
	k.equal("messages", len(k.outbox(persist.PartOf("a"))), 1)
	before := k.batch(persist.Append{ID: "a", After: 2, Events: payloads("3")})
	k.commitBatch(before)
	b.Number = before.Number - 1
	if err := k.j.Commit(k.ctx(), b); err == nil {
		k.Error("a batch before the last one was taken")
	}
	k.equal("events", texts(k.events("a", 2)), []string{"a/3 3"})
}

func sessionsNumber(k *kit) {
	k.commit(persist.Append{ID: "a", Events: payloads("1")})
	for session := uint64(1); session <= 3; session++ {
		b := k.batch(persist.Append{ID: "a", After: session, Events: payloads(fmt.Sprint(session + 1))}, persist.Append{ID: "b", After: 1, Events: payloads("wrong")})
		b.Session, b.Number = session, 1
		for range 2 {
			if err := k.j.Commit(k.ctx(), b); err != nil || b.Appends[0].Err != nil || !errors.Is(b.Appends[1].Err, persist.ErrConflict) {
				k.Fatalf("session %d: %v, %v, %v", session, err, b.Appends[0].Err, b.Appends[1].Err)
			}
		}
	}
	k.equal("events", texts(k.events("a", 0)), []string{"a/1 1", "a/2 2", "a/3 3", "a/4 4"})
}

func lowerEpochsAreRefused(k *kit) {
	claim := func(shard string, epoch uint64, ok bool) {
		k.Helper()
		if err := k.j.Claim(k.ctx(), shard, epoch); ok != (err == nil) || !ok && !errors.Is(err, persist.ErrFenced) {
			k.Errorf("claim %s/%d: %v", shard, epoch, err)
		}
	}
	at := func(id, shard string, epoch, after uint64) persist.Append {
		return persist.Append{ID: id, Shard: shard, Epoch: epoch, After: after, Events: payloads(fmt.Sprint("of epoch ", epoch))}
	}
	claim("s", 5, true)
	claim("s", 5, true)
	claim("s", 4, false)
	claim("other", 1, true)
	b := k.batch(at("a", "s", 4, 0), at("b", "s", 5, 0), at("a", "s", 5, 0), at("c", "other", 1, 0), at("d", "never claimed", 0, 0), at("e", "", 0, 0))
	if err := k.j.Commit(k.ctx(), b); err != nil {
		k.Fatal(err)
	}
	for i, refused := range []bool{true, false, true, false, false, false} {
		if err := b.Appends[i].Err; refused != errors.Is(err, persist.ErrFenced) || errors.Is(err, persist.ErrConflict) {
			k.Errorf("append %d: %v", i, err)
		}
	}
	k.crash()
	claim("s", 4, false)
	claim("s", 1<<62, true)
	b = k.batch(at("b", "s", 5, 1), at("b2", "s", 1<<62, 0), at("c", "other", 1, 1))
	if err := k.j.Commit(k.ctx(), b); err != nil {
		k.Fatal(err)
	}
	if !errors.Is(b.Appends[0].Err, persist.ErrFenced) || b.Appends[1].Err != nil || b.Appends[2].Err != nil {
		k.Errorf("after the crash: %v, %v, %v", b.Appends[0].Err, b.Appends[1].Err, b.Appends[2].Err)
	}
	k.commit(at("e", "", 0, 1))
	k.commit(at("b", "s", 1<<62, 1))
	k.equal("b", texts(k.events("b", 0)), []string{"b/1 of epoch 5", fmt.Sprint("b/2 of epoch ", 1<<62)})
}

func statesReplaceEachOther(k *kit) {
	for i := range uint64(3) {
		k.commit(
			persist.Append{ID: "a", After: 3 * i, State: new(payload(fmt.Sprint(3*i + 1)))},
			persist.Append{ID: "a", After: 3*i + 1, State: new(payload(fmt.Sprint(3*i + 2)))},
			persist.Append{ID: "a", After: 3*i + 2, State: new(payload(fmt.Sprint(3*i + 3)))},
		)
		l := k.load("a")
		if l.Last != 3*i+3 || l.State.Number != l.Last || string(l.State.Data) != fmt.Sprint(l.Last) || len(l.Events) > 0 {
			k.Errorf("state %d: %s", 3*i+3, describe(&l))
		}
	}
	k.crash()
	if l := k.load("a"); string(l.State.Data) != "9" || l.Last != 9 || len(k.events("a", 0)) > 0 {
		k.Errorf("after the crash: %s", describe(&l))
	}
}

func endedContext(k *kit) {
	ctx, cancel := context.WithCancel(k.ctx())
	cancel()
	b := k.batch(persist.Append{ID: "a", Events: payloads("1")})
	if err := k.j.Commit(ctx, b); !errors.Is(err, context.Canceled) {
		k.Errorf("commit: %v", err)
	}
	if _, err := k.j.Load(ctx, []string{"a"}); !errors.Is(err, context.Canceled) {
		k.Errorf("load: %v", err)
	}
	k.equal("loaded", k.load("a"), persist.Loaded{ID: "a"})
	k.commitBatch(b)
	k.equal("events", texts(k.events("a", 0)), []string{"a/1 1"})
}

func wrongBatches(k *kit) {
	good := persist.Append{ID: "a", Events: payloads("1")}
	for want, b := range map[string]*persist.Batch{
		"number must be":           {Appends: []persist.Append{good}},
		"id must have":             {Number: 1, Appends: []persist.Append{good, {Events: payloads("1")}}},
		"UTF-8":                    {Number: 1, Appends: []persist.Append{good, {ID: "a\x00b", Events: payloads("1")}}},
		"512 bytes, not 513":       {Number: 1, Appends: []persist.Append{good, {ID: strings.Repeat("a", 513), Events: payloads("1")}}},
		"comes alone":              {Number: 1, Appends: []persist.Append{good, {ID: "b", Erase: true, Events: payloads("1")}}},
		"need an event":            {Number: 1, Appends: []persist.Append{good, {ID: "b", Seen: []persist.Seen{{From: "x", Number: 1}}}}},
		"message 1 comes after":    {Number: 1, Appends: []persist.Append{good, {ID: "b", Events: payloads("1"), Send: []persist.Message{{Number: 2, To: "x"}, {Number: 1, To: "x"}}}}},
		"receiver must have":       {Number: 1, Appends: []persist.Append{good, {ID: "b", Events: payloads("1"), Send: []persist.Message{{Number: 1}}}}},
		"sender must have":         {Number: 1, Appends: []persist.Append{good, {ID: "b", Events: payloads("1"), Seen: []persist.Seen{{Number: 1}}}}},
		"key of a reminder must":   {Number: 1, Appends: []persist.Append{good, {ID: "b", Events: payloads("1"), Reminders: []persist.ReminderEdit{{At: 1}}}}},
		"part must be 0 to 63":     {Number: 1, Appends: []persist.Append{good}, Cursors: []persist.Cursor{{Projection: "p", Part: 64}}},
		"projection must have":     {Number: 1, Appends: []persist.Append{good}, Cursors: []persist.Cursor{{}}},
		"delivered: id must have":  {Number: 1, Appends: []persist.Append{good}, Delivered: []persist.Delivery{{Number: 1}}},
		"must be at most 92233720": {Number: 1, Appends: []persist.Append{good, {ID: "b", After: math.MaxUint64 - 1, Events: payloads("1")}}},
	} {
		if err := k.j.Commit(k.ctx(), b); err == nil || !strings.Contains(err.Error(), want) {
			k.Errorf("want an error with %q, got %v", want, err)
		}
	}
	k.equal("loaded", k.load("a"), persist.Loaded{ID: "a"})
}

func closedSaysSo(k *kit) {
	if err := k.j.Close(); err != nil {
		k.Fatal(err)
	}
	_, err := k.j.Load(k.ctx(), []string{"a"})
	for what, err := range map[string]error{
		"load": err, "commit": k.j.Commit(k.ctx(), k.batch(persist.Append{ID: "a", Events: payloads("1")})), "claim": k.j.Claim(k.ctx(), "s", 1),
	} {
		if !errors.Is(err, persist.ErrClosed) {
			k.Errorf("%s: %v", what, err)
		}
	}
	k.open()
	k.equal("loaded", k.load("a"), persist.Loaded{ID: "a"})
}

// randomBatches commits the same to the journal and to one in memory, with crashes of the
// former, and compares.
func randomBatches(k *kit) {
	const seed = 16
	r := rand.New(rand.NewPCG(seed, 0))
	model := &kit{T: k.T, j: memory.New()}
	ids := []string{"a", "b", "c", "/cart-42", "cart/user 7", "ä"}
	last, sent := map[string]uint64{}, map[string]uint64{}
	for n := range 150 {
		var appends []persist.Append
		for range 1 + r.IntN(6) {
			a := randomAppend(r, ids, last, sent)
			appends = append(appends, a)
		}
		b := k.batch(appends...)
		for range r.IntN(3) {
			b.Delivered = append(b.Delivered, persist.Delivery{From: ids[r.IntN(len(ids))], Number: 1 + r.Uint64N(uint64(n+1))})
		}
		model.number++
		copied := *b
		copied.Number, copied.Appends = model.number, slices.Clone(b.Appends)
		for range 1 + r.IntN(2) {
			if err := k.j.Commit(k.ctx(), b); err != nil {
				k.Fatalf("seed %d, batch %d: %v", seed, n, err)
			}
		}
		if err := model.j.Commit(k.ctx(), &copied); err != nil {
			k.Fatalf("seed %d, batch %d, in memory: %v", seed, n, err)
		}
		for i := range b.Appends {
			if got, want := b.Appends[i].Err, copied.Appends[i].Err; (got == nil) != (want == nil) || errors.Is(got, persist.ErrConflict) != errors.Is(want, persist.ErrConflict) {
				k.Fatalf("seed %d, batch %d, append %d: %v, in memory %v", seed, n, i, got, want)
			}
		}
		for _, id := range ids {
			l := model.load(id)
			last[id], sent[id] = l.Last, l.Sent
		}
		if r.IntN(60) == 0 {
			k.crash()
		}
		if n%50 == 49 {
			k.sameLines(k.everything(ids), model.everything(ids))
		}
	}
	k.crash()
	k.sameLines(k.everything(ids), model.everything(ids))
}

// randomAppend draws an append, which may expect a number that the id does not have.
func randomAppend(r *rand.Rand, ids []string, last, sent map[string]uint64) persist.Append {
	a := persist.Append{ID: ids[r.IntN(len(ids))]}
	a.After = last[a.ID]
	if r.IntN(10) == 0 {
		a.After += r.Uint64N(3)
	}
	if r.IntN(40) == 0 {
		a.Erase = true
		last[a.ID] = a.Last()
		return a
	}
	for range r.IntN(3) {
		a.Events = append(a.Events, payload(fmt.Sprint("event ", r.IntN(1000))))
	}
	if r.IntN(4) == 0 {
		a.State = new(payload(fmt.Sprint("state ", r.IntN(1000))))
	}
	if r.IntN(4) == 0 && a.Last() > 0 {
		a.Snapshot = new(payload(fmt.Sprint("snapshot ", r.IntN(1000))))
	}
	if a.Takes() == 0 {
		last[a.ID] = a.Last()
		return a
	}
	for range r.IntN(3) {
		sent[a.ID]++
		a.Send = append(a.Send, persist.Message{Number: sent[a.ID], To: ids[r.IntN(len(ids))], Payload: payload("message")})
	}
	if r.IntN(3) == 0 {
		a.Seen = append(a.Seen, persist.Seen{From: ids[r.IntN(len(ids))], Number: 1 + r.Uint64N(50)})
	}
	for range r.IntN(3) {
		a.Reminders = append(a.Reminders, persist.ReminderEdit{Key: fmt.Sprint("key ", r.IntN(4)), At: int64(r.IntN(100)), Payload: payload("wake")})
		if e := &a.Reminders[len(a.Reminders)-1]; e.At < 30 {
			e.At = 0
		}
	}
	last[a.ID] = a.Last()
	return a
}
