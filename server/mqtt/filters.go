package mqtt

import (
	"strings"
	"sync"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	// maxNameBytes bounds what clients name and the broker keeps: client ids, filters, and topics
	// with an alias.
	maxNameBytes = 1024

	// DefaultFilterBytes is the default of Limits.FilterBytes.
	DefaultFilterBytes = 256 << 20
	// filterReserve is what each session may use beyond Limits.FilterBytes: that of half a dozen
	// subscriptions.
	filterReserve = 16 << 10

	// Approximate memory of a subscription in mochi, and of each level of its filter.
	filterOverhead = 1024
	levelOverhead  = 640
)

// filterBudget bounds the memory of all subscriptions. A principal may use as much as it leaves for
// others, so that nobody uses up everything. Its methods may be called concurrently.
type filterBudget struct {
	most int64

	mu   sync.Mutex
	used int64                   // guarded by mu; by all sessions
	by   map[string]int64        // guarded by mu; by the sessions of a principal; none is 0
	of   map[string]filterCharge // guarded by mu; by client id
}

// filterCharge is what one session uses.
type filterCharge struct {
	owner string
	bytes int64
}

func newFilterBudget(most int64) filterBudget {
	return filterBudget{most: most, by: map[string]int64{}, of: map[string]filterCharge{}}
}

// costOf returns the approximate memory of a subscription.
func costOf(filter string) int64 {
	return filterOverhead + int64(len(filter)) + levelOverhead*int64(1+strings.Count(filter, "/"))
}

// take charges a session for one more subscription. It reports false, and charges nothing, if too
// much is used.
func (f *filterBudget) take(session, owner, filter string) bool {
	n := costOf(filter)
	f.mu.Lock()
	defer f.mu.Unlock()
	have := f.of[session].bytes
	if have+n > filterReserve && f.by[owner]+n > f.most-f.used {
		return false
	}
	f.set(session, owner, have+n)
	return true
}

// settle charges a session for the subscriptions that it has. The client that has the session now
// counts, which need not be the one that has caused the call: another connection may have taken the
// session over, or it may have ended.
func (f *filterBudget) settle(clients *mochi.Clients, session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cl, ok := clients.Get(session)
	if !ok {
		f.set(session, "", 0)
		return
	}
	var n int64
	for filter := range cl.State.Subscriptions.GetAll() {
		n += costOf(filter)
	}
	f.set(session, ownerOf(cl), n)
}

// end discharges a session that has ended.
func (f *filterBudget) end(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(session, "", 0)
}

// set sets the charge of a session. The caller holds mu.
func (f *filterBudget) set(session, owner string, bytes int64) {
	was := f.of[session]
	f.used -= was.bytes
	if f.by[was.owner] -= was.bytes; f.by[was.owner] == 0 {
		delete(f.by, was.owner)
	}
	if bytes == 0 {
		delete(f.of, session)
		return
	}
	f.of[session] = filterCharge{owner, bytes}
	f.used += bytes
	f.by[owner] += bytes
}

// bytes returns what all sessions use.
func (f *filterBudget) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// ownNames copies what mochi keeps of a packet. mochi decodes into slices of the packet, which may
// have a megabyte, and would stay in memory as long as a filter of a few bytes.
func ownNames(pk *packets.Packet) {
	for i := range pk.Filters {
		pk.Filters[i].Filter = strings.Clone(pk.Filters[i].Filter)
	}
	if pk.Properties.TopicAliasFlag {
		pk.TopicName = strings.Clone(pk.TopicName)
	}
}
