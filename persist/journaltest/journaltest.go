// Package journaltest is the conformance suite for [persist.Journal]: a journal must pass [Run].
package journaltest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/persist"
)

// Store is a kind of journal to be tested.
type Store struct {
	// Open opens the journal whose data is in dir, a directory of the test's own that is empty the
	// first time. It is called again with the same dir after Close or Crash, and must then find
	// what was committed. A failure ends the test.
	Open func(t *testing.T, dir string) persist.Journal
	// Crash ends the journal without Close, as the end of its process or a loss of power would, and
	// forgets what was not durable. If it is nil, Close is used instead.
	Crash func(t *testing.T, j persist.Journal, dir string)
	// Shared says that several processes can write to the journal: Open is called again while it is
	// open. The tests then run in parallel.
	Shared bool
}

// Run runs the suite, each test with a journal of its own.
func Run(t *testing.T, store Store) {
	tests := map[string]func(*kit){
		"NewJournalIsEmpty":                          newJournalIsEmpty,
		"WhatIsCommittedIsFoundAfterACrash":          committedIsFound,
		"PayloadsComeBackAsTheyWere":                 payloadsComeBack,
		"NothingIsShared":                            nothingIsShared,
		"RefusedAppendsConcernNobodyElse":            refusedConcernNobodyElse,
		"AppendsOfOneIdFollowEachOther":              appendsFollowEachOther,
		"TheSameBatchAgainIsWrittenOnce":             sameBatchAgain,
		"SessionsNumberTheirOwnBatches":              sessionsNumber,
		"LowerEpochsAreRefused":                      lowerEpochsAreRefused,
		"EventsArePaged":                             eventsArePaged,
		"ManyAreLoadedTogether":                      manyAreLoaded,
		"TwoSnapshotsAreKept":                        twoSnapshotsAreKept,
		"StatesReplaceEachOther":                     statesReplaceEachOther,
		"FeedHasAllInTheOrderOfCommits":              feedHasAll,
		"EndsAreBeforeWhatIsCommittedLater":          endsAreBefore,
		"FeedOfAPartitionIsPaged":                    feedIsPaged,
		"MessagesAreKeptUntilDelivered":              messagesAreKept,
		"TheLastSeenOfEachSenderIsKept":              lastSeenIsKept,
		"RemindersAreDueInOrder":                     remindersAreDue,
		"RemindersThatAreDueArePaged":                dueIsPaged,
		"WhatIsErasedIsGone":                         erasedIsGone,
		"CursorsAreKept":                             cursorsAreKept,
		"IdsArePaged":                                idsArePaged,
		"EndedContextCommitsNothing":                 endedContext,
		"WhatIsWrongWithABatchIsSaidAndNoneOfItKept": wrongBatches,
		"ClosedJournalSaysSo":                        closedSaysSo,
		"RandomBatchesComeToWhatTheyWouldInMemory":   randomBatches,
	}
	if store.Shared {
		maps.Copy(tests, map[string]func(*kit){
			"OneOfTwoWritersExtendsAnId":            oneExtends,
			"FeedHasAllOfSeveralWriters":            feedOfSeveral,
			"ClaimIsHeededByOtherWriters":           claimIsHeeded,
			"WhatOthersCommitIsFoundWithoutOpening": othersAreFound,
		})
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if store.Shared {
				t.Parallel()
			}
			k := &kit{T: t, store: store, dir: t.TempDir()}
			k.open()
			t.Cleanup(func() {
				if err := k.j.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test(k)
		})
	}
}

// kit is a journal with the bookkeeping that package persist does.
type kit struct {
	*testing.T
	store  Store
	dir    string
	j      persist.Journal
	number uint64
	time   int64
}

func (k *kit) open() {
	k.Helper()
	k.j, k.number = k.store.Open(k.T, k.dir), 0
}

// crash loses what is not durable, and opens the journal again.
func (k *kit) crash() {
	k.Helper()
	before := k.j.Info()
	if k.store.Crash != nil {
		k.store.Crash(k.T, k.j, k.dir)
	} else if err := k.j.Close(); err != nil {
		k.Fatalf("close: %v", err)
	}
	k.open()
	if after := k.j.Info(); after != before {
		k.Fatalf("after the crash: info is %+v, was %+v", after, before)
	}
}

func (k *kit) ctx() context.Context { return k.Context() }

// batch makes the next batch.
func (k *kit) batch(appends ...persist.Append) *persist.Batch {
	k.number++
	k.time++
	return &persist.Batch{Number: k.number, Time: 1_700_000_000_000 + k.time, Appends: appends}
}

// commit commits appends, none of which may be refused.
func (k *kit) commit(appends ...persist.Append) {
	k.Helper()
	k.commitBatch(k.batch(appends...))
}

func (k *kit) commitBatch(b *persist.Batch) {
	k.Helper()
	if err := k.j.Commit(k.ctx(), b); err != nil {
		k.Fatalf("commit: %v", err)
	}
	for i := range b.Appends {
		if a := &b.Appends[i]; a.Err != nil {
			k.Fatalf("append %d to %q after %d: %v", i, a.ID, a.After, a.Err)
		}
	}
}

// load loads one id.
func (k *kit) load(id string) persist.Loaded {
	k.Helper()
	list, err := k.j.Load(k.ctx(), []string{id})
	if err != nil || len(list) != 1 || list[0].ID != id {
		k.Fatalf("load %q: %+v, %v", id, list, err)
	}
	return list[0]
}

// events reads all events of an id after a number.
func (k *kit) events(id string, after uint64) (list []persist.Record) {
	k.Helper()
	for {
		page, err := k.j.Events(k.ctx(), id, after, persist.PageRecords)
		if err != nil {
			k.Fatalf("events of %q after %d: %v", id, after, err)
		}
		if len(page) == 0 {
			return list
		}
		list = append(list, page...)
		after = page[len(page)-1].Number
	}
}

// feed reads all events of a partition.
func (k *kit) feed(part int) (list []persist.Record) {
	k.Helper()
	for after := uint64(0); ; after = list[len(list)-1].Position {
		page, err := k.j.Feed(k.ctx(), part, after, persist.PageRecords)
		if err != nil {
			k.Fatalf("feed of %d after %d: %v", part, after, err)
		}
		if len(page) == 0 {
			return list
		}
		list = append(list, page...)
	}
}

// outbox reads all messages of a partition that were not delivered.
func (k *kit) outbox(part int) (list []persist.Outgoing) {
	k.Helper()
	for after := uint64(0); ; after = list[len(list)-1].Position {
		page, err := k.j.Outbox(k.ctx(), part, after, persist.PageRecords)
		if err != nil {
			k.Fatalf("outbox of %d after %d: %v", part, after, err)
		}
		if len(page) == 0 {
			return list
		}
		list = append(list, page...)
	}
}

// due reads all reminders of a partition that are due.
func (k *kit) due(part int, now int64) (list []persist.Reminder) {
	k.Helper()
	for after := (persist.Reminder{}); ; after = list[len(list)-1] {
		page, err := k.j.Due(k.ctx(), part, now, after, 1000)
		if err != nil {
			k.Fatalf("due: %v", err)
		}
		if len(page) == 0 {
			return list
		}
		list = append(list, page...)
	}
}

// payload is a payload with that text.
func payload(text string) persist.Payload {
	return persist.Payload{Type: "test.event", Data: []byte(text), Sum: uint32(len(text))}
}

// payloads are some.
func payloads(texts ...string) (list []persist.Payload) {
	for _, text := range texts {
		list = append(list, payload(text))
	}
	return list
}

// texts returns the data of records with their numbers.
func texts(records []persist.Record) (list []string) {
	for _, r := range records {
		list = append(list, fmt.Sprintf("%s/%d %s", r.ID, r.Number, r.Data))
	}
	return list
}

func (k *kit) equal(what string, got, want any) {
	k.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w && !reflect.DeepEqual(got, want) {
		k.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

// inOnePart returns n ids that begin so and are in one partition.
func inOnePart(prefix string, n int) (part int, ids []string) {
	part = persist.PartOf(prefix)
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprintf("%s%d", prefix, i); persist.PartOf(id) == part {
			ids = append(ids, id)
		}
	}
	return part, ids
}

// everything is all that a journal has of some ids, as text, but for positions.
func (k *kit) everything(ids []string) (lines []string) {
	k.Helper()
	for _, id := range ids {
		l := k.load(id)
		lines = append(lines, describe(&l))
		for _, r := range k.events(id, 0) {
			lines = append(lines, fmt.Sprintf("  %d at %d %+v", r.Number, r.Time, r.Payload))
		}
		for below := l.Last + 1; ; {
			s, err := k.j.Snapshot(k.ctx(), id, below)
			if err != nil {
				k.Fatalf("snapshot: %v", err)
			}
			if s.Number == 0 {
				break
			}
			lines = append(lines, fmt.Sprintf("  snapshot %+v", s))
			below = s.Number
		}
	}
	for part := range persist.Parts {
		for _, r := range k.feed(part) {
			lines = append(lines, fmt.Sprintf("feed %d: %s/%d %v %s", part, r.ID, r.Number, r.Erased, r.Data))
		}
		for _, o := range k.outbox(part) {
			lines = append(lines, fmt.Sprintf("outbox %d: %s at %d %+v", part, o.From, o.Time, o.Message))
		}
		for _, r := range k.due(part, 1<<50) {
			lines = append(lines, fmt.Sprintf("due %d: %+v", part, r))
		}
	}
	return lines
}

func describe(l *persist.Loaded) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s last %d erased %d sent %d seen %+v reminders %+v", l.ID, l.Last, l.Erased, l.Sent, l.Seen, l.Reminders)
	if l.State != nil {
		fmt.Fprintf(&text, " state %+v", *l.State)
	}
	if l.Snapshot != nil {
		fmt.Fprintf(&text, " snapshot %+v", *l.Snapshot)
	}
	for _, r := range l.Events {
		fmt.Fprintf(&text, " %d:%s", r.Number, r.Data)
	}
	return text.String()
}

// sameLines fails at the first line that differs.
func (k *kit) sameLines(got, want []string) {
	k.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			k.Fatalf("line %d: got\n  %s\nwant\n  %s", i, g, w)
		}
	}
}

func sorted[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return list
}
