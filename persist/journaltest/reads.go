package journaltest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/persist"
)

func eventsArePaged(k *kit) {
	const n = 2*persist.PageRecords + 10
	list := make([]persist.Payload, n)
	for i := range list {
		list[i] = payload(fmt.Sprint(i + 1))
	}
	k.commit(persist.Append{ID: "a", Events: list[:n/2]}, persist.Append{ID: "a", After: n / 2, Events: list[n/2:]})
	for _, limit := range []int{1, 10, persist.PageRecords, 10 * persist.PageRecords} {
		page, err := k.j.Events(k.ctx(), "a", 5, limit)
		if err != nil || len(page) != min(limit, persist.PageRecords) || page[0].Number != 6 || page[len(page)-1].Number != uint64(5+len(page)) {
			k.Errorf("limit %d: %d events, %v", limit, len(page), err)
		}
	}
	if page, err := k.j.Events(k.ctx(), "a", n, 10); err != nil || len(page) > 0 {
		k.Errorf("after the last: %d events, %v", len(page), err)
	}
	if l := k.load("a"); len(l.Events) != persist.PageRecords || l.Last != n {
		k.Errorf("loaded: %d events", len(l.Events))
	}
	all := k.events("a", 0)
	for i, r := range all {
		if r.Number != uint64(i+1) || string(r.Data) != fmt.Sprint(i+1) {
			k.Fatalf("event %d: number %d, %q", i+1, r.Number, r.Data)
		}
	}
	k.equal("events", len(all), n)

	large := persist.Payload{Type: "large", Data: bytes.Repeat([]byte("x"), persist.PageBytes/2+1)}
	huge := persist.Payload{Type: "huge", Data: bytes.Repeat([]byte("y"), persist.PageBytes+1)}
	k.commit(persist.Append{ID: "b", Events: []persist.Payload{large, large, huge, large}})
	for after := range uint64(4) {
		if page, err := k.j.Events(k.ctx(), "b", after, 10); err != nil || len(page) != 1 || page[0].Number != after+1 {
			k.Errorf("large events after %d: %d, %v", after, len(page), err)
		}
	}
	if l := k.load("b"); len(l.Events) != 1 || l.Last != 4 {
		k.Errorf("large events: %d were loaded", len(l.Events))
	}
}

func manyAreLoaded(k *kit) {
	var appends []persist.Append
	ids := []string{"none"}
	for i := range 64 {
		id := fmt.Sprint("id-", i)
		ids = append(ids, id)
		appends = append(appends, persist.Append{ID: id, Events: payloads("1", fmt.Sprint("of ", id))})
	}
	k.commit(appends...)
	slices.Reverse(ids)
	list, err := k.j.Load(k.ctx(), ids)
	if err != nil || len(list) != len(ids) {
		k.Fatalf("%d were loaded, %v", len(list), err)
	}
	for i, l := range list {
		switch {
		case l.ID != ids[i]:
			k.Errorf("at %d is %q, want %q", i, l.ID, ids[i])
		case l.ID == "none" && l.Last != 0, l.ID != "none" && (l.Last != 2 || len(l.Events) != 2 || string(l.Events[1].Data) != "of "+l.ID):
			k.Errorf("%s", describe(&l))
		}
	}
	if list, err := k.j.Load(k.ctx(), nil); err != nil || len(list) != 0 {
		k.Errorf("none: %v, %v", list, err)
	}
}

func twoSnapshotsAreKept(k *kit) {
	for i := range uint64(3) {
		k.commit(persist.Append{ID: "a", After: 2 * i, Events: payloads("x", "y"), Snapshot: new(payload(fmt.Sprint("s", 2*i+2)))})
	}
	k.commit(persist.Append{ID: "a", After: 6, Events: payloads("z")})
	find := func(below, want uint64) {
		k.Helper()
		s, err := k.j.Snapshot(k.ctx(), "a", below)
		if err != nil || s.Number != want || want > 0 && string(s.Data) != fmt.Sprint("s", want) {
			k.Errorf("snapshot below %d: %d %q, %v, want %d", below, s.Number, s.Data, err, want)
		}
	}
	for range 2 {
		find(100, 6)
		find(7, 6)
		find(6, 4)
		find(4, 0)
		l := k.load("a")
		if l.Snapshot == nil || l.Snapshot.Number != 6 || len(l.Events) != 1 || l.Events[0].Number != 7 || l.Last != 7 {
			k.Errorf("loaded: %s", describe(&l))
		}
		k.crash()
	}
	k.commit(persist.Append{ID: "a", After: 7, Snapshot: new(payload("s7"))})
	find(8, 7)
	find(7, 6)
	find(6, 0)
	k.commit(persist.Append{ID: "a", After: 7, Snapshot: new(payload("s7"))})
	find(8, 7)
	find(7, 6)
	if l := k.load("a"); l.Last != 7 || len(l.Events) != 0 || len(k.events("a", 0)) != 7 {
		k.Errorf("loaded: %s", describe(&l))
	}
}

// feedHasAll follows the feed while others commit: it may miss nothing, and see nothing twice.
func feedHasAll(k *kit) {
	part, ids := inOnePart("f", 3)
	const rounds = 60
	var followed []persist.Record
	var followers sync.WaitGroup
	followers.Go(func() {
		for after := uint64(0); len(followed) < rounds*len(ids); {
			page, err := k.j.Feed(k.ctx(), part, after, 7)
			if err != nil {
				k.Errorf("feed: %v", err)
				return
			}
			for _, r := range page {
				if r.Position <= after {
					k.Errorf("position %d comes after %d", r.Position, after)
					return
				}
				after = r.Position
			}
			followed = append(followed, page...)
		}
	})
	numbers := map[string]uint64{}
	for n := range rounds {
		var appends []persist.Append
		for i := range ids {
			id := ids[(i+n)%len(ids)]
			appends = append(appends, persist.Append{ID: id, After: numbers[id], Events: payloads(fmt.Sprint(n))}, persist.Append{ID: id, After: 99999, Events: payloads("wrong")})
			numbers[id]++
		}
		b := k.batch(appends...)
		if err := k.j.Commit(k.ctx(), b); err != nil {
			k.Errorf("commit: %v", err)
			break
		}
	}
	followers.Wait()
	k.equal("the feed at the end", texts(followed), texts(k.feed(part)))
	seen := map[string]uint64{}
	for _, r := range followed {
		if seen[r.ID]++; r.Number != seen[r.ID] {
			k.Fatalf("%s: number %d where %d is next", r.ID, r.Number, seen[r.ID])
		}
	}
	k.crash()
	k.equal("the feed after a crash", k.feed(part), followed)
}

func feedIsPaged(k *kit) {
	part, ids := inOnePart("p", 2)
	for i := range uint64(5) {
		k.commit(persist.Append{ID: ids[0], After: i, Events: payloads("x")}, persist.Append{ID: ids[1], After: 2 * i, Events: payloads("y", "z")},
			persist.Append{ID: "elsewhere", After: i, Events: payloads("no")})
	}
	all := k.feed(part)
	if len(all) != 15 {
		k.Fatalf("%d events", len(all))
	}
	var paged []persist.Record
	for after := uint64(0); ; {
		page, err := k.j.Feed(k.ctx(), part, after, 4)
		if err != nil || len(page) > 4 {
			k.Fatalf("%d events, %v", len(page), err)
		}
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		after = page[len(page)-1].Position
	}
	k.equal("paged", paged, all)
	before := all[len(all)-1].Position
	k.crash()
	k.commit(persist.Append{ID: ids[0], After: 5, Events: payloads("later")})
	if later := k.feed(part)[15:]; len(later) != 1 || later[0].Position <= before {
		k.Errorf("after the crash: %+v, after position %d", later, before)
	}
}

func messagesAreKept(k *kit) {
	part, ids := inOnePart("m", 2)
	send := func(numbers ...uint64) (list []persist.Message) {
		for _, n := range numbers {
			list = append(list, persist.Message{Number: n, To: "to", Payload: payload(fmt.Sprint("message ", n))})
		}
		return list
	}
	names := func() (list []string) {
		last := uint64(0)
		for _, o := range k.outbox(part) {
			if o.Position <= last || string(o.Data) != fmt.Sprint("message ", o.Number) || o.To != "to" {
				k.Errorf("message: %+v", o)
			}
			last = o.Position
			list = append(list, fmt.Sprint(o.From, "/", o.Number))
		}
		return list
	}
	k.commit(
		persist.Append{ID: ids[0], Events: payloads("x"), Send: send(1, 2)},
		persist.Append{ID: ids[1], State: new(payload("s")), Send: send(1)},
		persist.Append{ID: ids[0], After: 1, Events: []persist.Payload{{}}, Send: send(5)},
	)
	a, b := ids[0]+"/", ids[1]+"/"
	k.equal("sent", names(), []string{a + "1", a + "2", b + "1", a + "5"})
	page, err := k.j.Outbox(k.ctx(), part, 0, 2)
	if err != nil || len(page) != 2 {
		k.Fatalf("first page: %+v, %v", page, err)
	}
	if page, err = k.j.Outbox(k.ctx(), part, page[1].Position, 2); err != nil || len(page) != 2 || page[0].From != ids[1] {
		k.Fatalf("second page: %+v, %v", page, err)
	}
	done := k.batch(persist.Append{ID: ids[1], After: 1, State: new(payload("s")), Send: send(2)})
	done.Delivered = []persist.Delivery{{From: ids[0], Number: 2}, {From: ids[0], Number: 77}, {From: "nobody", Number: 1}, {From: ids[1], Number: 1}}
	k.commitBatch(done)
	k.commitBatch(&persist.Batch{Number: k.batch().Number, Delivered: []persist.Delivery{{From: ids[0], Number: 2}}})
	for range 2 {
		k.equal("not delivered", names(), []string{a + "1", a + "5", b + "2"})
		k.equal("sent by the first", k.load(ids[0]).Sent, uint64(5))
		k.crash()
	}
	rest := k.batch()
	rest.Delivered = []persist.Delivery{{From: ids[0], Number: 5}, {From: ids[0], Number: 1}, {From: ids[1], Number: 2}}
	k.commitBatch(rest)
	if left := names(); len(left) > 0 || k.load(ids[0]).Sent != 5 {
		k.Errorf("all were delivered: left are %v, sent are %d", left, k.load(ids[0]).Sent)
	}
}

func lastSeenIsKept(k *kit) {
	see := func(after uint64, list ...persist.Seen) {
		k.commit(persist.Append{ID: "a", After: after, Events: []persist.Payload{{}}, Seen: list})
	}
	see(0, persist.Seen{From: "x", Number: 4}, persist.Seen{From: "y", Number: 1})
	see(1, persist.Seen{From: "x", Number: 3}, persist.Seen{From: "y", Number: 2}, persist.Seen{From: "B", Number: 1})
	see(2, persist.Seen{From: "y", Number: 6}, persist.Seen{From: "y", Number: 5})
	want := []persist.Seen{{From: "B", Number: 1}, {From: "x", Number: 4}, {From: "y", Number: 6}}
	k.equal("seen", k.load("a").Seen, want)
	k.crash()
	k.equal("seen after a crash", k.load("a").Seen, want)
}

func remindersAreDue(k *kit) {
	part, ids := inOnePart("r", 2)
	edit := func(key string, at int64) persist.ReminderEdit {
		return persist.ReminderEdit{Key: key, At: at, Payload: payload(fmt.Sprint(key, at))}
	}
	set := func(id string, after uint64, edits ...persist.ReminderEdit) {
		k.commit(persist.Append{ID: id, After: after, Events: []persist.Payload{{}}, Reminders: edits})
	}
	names := func(list []persist.Reminder) (names []string) {
		for _, r := range list {
			if string(r.Data) != fmt.Sprint(r.Key, r.At) {
				k.Errorf("reminder: %+v", r)
			}
			names = append(names, fmt.Sprintf("%s %s %d", r.ID, r.Key, r.At))
		}
		return names
	}
	set(ids[1], 0, edit("b", 10), edit("a", 10), edit("c", 30), edit("gone", 5))
	set(ids[0], 0, edit("a", 10), edit("moved", 1), edit("set and removed", 1), edit("set and removed", 0), edit("removed and set", 0), edit("removed and set", 20))
	set(ids[0], 1, edit("moved", 40))
	set(ids[1], 1, edit("gone", 0), edit("never was", 0))
	all := []string{ids[0] + " a 10", ids[1] + " a 10", ids[1] + " b 10", ids[0] + " removed and set 20", ids[1] + " c 30", ids[0] + " moved 40"}
	if ids[1] < ids[0] {
		all[0], all[1], all[2] = all[1], all[2], all[0]
	}
	for range 2 {
		for now, n := range map[int64]int{0: 0, 9: 0, 10: 3, 29: 4, 30: 5, 100: 6} {
			k.equal(fmt.Sprint("due at ", now), names(k.due(part, now)), all[:n])
		}
		for i := range all {
			after := persist.Reminder{}
			if i > 0 {
				after = k.due(part, 100)[i-1]
			}
			list, err := k.j.Due(k.ctx(), part, 100, after, 2)
			if err != nil {
				k.Fatal(err)
			}
			k.equal("two of those that are due", names(list), all[i:min(i+2, len(all))])
		}
		k.equal("of one id", names(k.load(ids[0]).Reminders), []string{ids[0] + " a 10", ids[0] + " moved 40", ids[0] + " removed and set 20"})
		k.crash()
	}
}

func endsAreBefore(k *kit) {
	part, ids := inOnePart("n", 2)
	ends := func() []uint64 {
		ends, err := k.j.Ends(k.ctx())
		if err != nil || len(ends) != persist.Parts {
			k.Fatalf("ends: %d, %v", len(ends), err)
		}
		return ends
	}
	after := func(end uint64) []string {
		page, err := k.j.Feed(k.ctx(), part, end, persist.PageRecords)
		if err != nil {
			k.Fatal(err)
		}
		return texts(page)
	}
	first := ends()
	k.commit(persist.Append{ID: ids[0], Events: payloads("1", "2"), Send: []persist.Message{{Number: 1, To: "x", Payload: payload("m")}}})
	second := ends()
	k.equal("after the end", after(second[part]), []string(nil))
	k.crash()
	k.commit(persist.Append{ID: ids[1], Events: payloads("3")}, persist.Append{ID: "elsewhere", Events: payloads("4")})
	k.equal("after the second end", after(second[part]), []string{ids[1] + "/1 3"})
	k.equal("after the first end", after(first[part]), []string{ids[0] + "/1 1", ids[0] + "/2 2", ids[1] + "/1 3"})
	for i, end := range ends() {
		if end < second[i] {
			k.Errorf("the end of %d was %d and is %d", i, second[i], end)
		}
	}
}

func dueIsPaged(k *kit) {
	part, ids := inOnePart("r", 3)
	large := persist.Payload{Type: "t", Data: make([]byte, persist.PageBytes/3)}
	set := func(id string, at func(i int) int64, n int, p persist.Payload) {
		var edits []persist.ReminderEdit
		for i := range n {
			edits = append(edits, persist.ReminderEdit{Key: fmt.Sprintf("%04d", i), At: at(i), Payload: p})
		}
		k.commit(persist.Append{ID: id, Events: []persist.Payload{{}}, Reminders: edits})
	}
	set(ids[0], func(i int) int64 { return int64(1 + i/400) }, persist.PageRecords+10, payload("x"))
	set(ids[1], func(int) int64 { return 100 }, 7, large)
	set(ids[2], func(int) int64 { return 200 }, 1, persist.Payload{Type: "t", Data: make([]byte, persist.PageBytes+1)})
	var pages []int
	for after := (persist.Reminder{}); ; {
		page, err := k.j.Due(k.ctx(), part, 1000, after, 1<<20)
		if err != nil {
			k.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.At < after.At || r.At == after.At && r.ID+r.Key <= after.ID+after.Key {
				k.Fatalf("%s %s at %d comes after %s %s at %d", r.ID, r.Key, r.At, after.ID, after.Key, after.At)
			}
			after = r
		}
		pages = append(pages, len(page))
	}
	k.equal("pages", pages, []int{persist.PageRecords, 12, 3, 2, 1})
}

func erasedIsGone(k *kit) {
	part, ids := inOnePart("e", 2)
	k.commit(
		persist.Append{
			ID: ids[0], Events: payloads("secret", "secret"), State: new(payload("secret")), Snapshot: new(payload("secret")),
			Send: []persist.Message{{Number: 4, To: "x", Payload: payload("secret")}}, Seen: []persist.Seen{{From: "y", Number: 9}},
			Reminders: []persist.ReminderEdit{{Key: "k", At: 1, Payload: payload("secret")}},
		},
		persist.Append{ID: ids[1], Events: payloads("kept")},
	)
	k.commit(persist.Append{ID: ids[0], After: 2, Erase: true})
	for range 2 {
		l := k.load(ids[0])
		if l.Last != 3 || l.Erased != 3 || l.State != nil || l.Snapshot != nil || len(l.Events)+len(l.Reminders) > 0 || l.Sent != 4 {
			k.Errorf("erased: %s", describe(&l))
		}
		k.equal("seen", l.Seen, []persist.Seen{{From: "y", Number: 9}})
		if len(k.events(ids[0], 0)) > 0 || len(k.outbox(part)) > 0 || len(k.due(part, 100)) > 0 {
			k.Error("something is left of what was erased")
		}
		if s, err := k.j.Snapshot(k.ctx(), ids[0], 100); err != nil || s.Number != 0 {
			k.Errorf("snapshot %d, %v", s.Number, err)
		}
		feed := k.feed(part)
		if len(feed) != 2 || feed[0].ID != ids[1] || !feed[1].Erased || feed[1].ID != ids[0] || feed[1].Number != 3 || feed[1].Position <= feed[0].Position {
			k.Errorf("feed: %+v", feed)
		}
		k.crash()
	}
	b := k.batch(persist.Append{ID: ids[0], After: 2, Events: payloads("late")})
	if err := k.j.Commit(k.ctx(), b); err != nil || b.Appends[0].Err == nil {
		k.Errorf("an append that knows nothing of the erasure: %v, %v", err, b.Appends[0].Err)
	}
	k.commit(persist.Append{ID: ids[0], After: 3, Events: payloads("anew"), Snapshot: new(payload("s"))})
	k.equal("anew", texts(k.events(ids[0], 0)), []string{ids[0] + "/4 anew"})
	k.commit(persist.Append{ID: ids[0], After: 4, Erase: true}, persist.Append{ID: ids[0], After: 5, Events: payloads("again")})
	if l := k.load(ids[0]); l.Erased != 5 || l.Last != 6 || len(l.Events) != 1 || l.Snapshot != nil {
		k.Errorf("erased again: %s", describe(&l))
	}
}

func cursorsAreKept(k *kit) {
	move := func(cursors ...persist.Cursor) {
		b := k.batch()
		b.Cursors = cursors
		k.commitBatch(b)
	}
	move(persist.Cursor{Projection: "p", Part: 0, Position: 5}, persist.Cursor{Projection: "q", Part: 0, Position: 1}, persist.Cursor{Projection: "p", Part: 63, Position: 8})
	move(persist.Cursor{Projection: "p", Part: 0, Position: 9}, persist.Cursor{Projection: "p", Part: 0, Position: 3})
	for range 2 {
		p, err := k.j.Cursors(k.ctx(), "p")
		if err != nil || len(p) != persist.Parts || p[0] != 3 || p[63] != 8 || p[1] != 0 {
			k.Errorf("p: %v, %v", p, err)
		}
		if q, err := k.j.Cursors(k.ctx(), "q"); err != nil || q[0] != 1 || q[63] != 0 {
			k.Errorf("q: %v, %v", q, err)
		}
		k.crash()
	}
}

func idsArePaged(k *kit) {
	ids := sorted([]string{"b", "a", "B", "a/b", "a b", "ä", "Z", "zz", "é", "\U0001F600", "￿"})
	for _, id := range ids {
		k.commit(persist.Append{ID: id, Events: payloads("x")})
	}
	for range 2 {
		for _, limit := range []int{1, 3, 100} {
			var paged []string
			for after := ""; ; {
				page, err := k.j.IDs(k.ctx(), after, limit)
				if err != nil || len(page) > limit {
					k.Fatalf("%d ids, %v", len(page), err)
				}
				if len(page) == 0 {
					break
				}
				paged = append(paged, page...)
				after = page[len(page)-1]
			}
			k.equal("ids", paged, ids)
		}
		k.crash()
	}
}
