package main

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// ErrNotLeader is the answer to a command that this member cannot commit. If it has given
// up the lead since it took the command, the command may still be committed by another.
var ErrNotLeader = errors.New("not the leader")

// Entry is a command of the log, with the term of the leader that took it.
type Entry struct {
	Term    uint64
	Command string
}

// Msg is what a member accepts.
type Msg interface{ raft() }

type (
	// Propose asks for a command to be committed. The answer is its index.
	Propose struct {
		actor.Returns[int]
		Command string
	}
	// List asks for the committed commands, as far as this member knows.
	List struct{ actor.Returns[[]string] }

	// RequestVote is what a candidate sends.
	RequestVote struct {
		Term      uint64
		From      int
		LastIndex int
		LastTerm  uint64
	}
	// Vote is the answer.
	Vote struct {
		Term    uint64
		From    int
		Granted bool
	}
	// Append is what a leader sends, with entries or as a heartbeat.
	Append struct {
		Term      uint64
		From      int
		PrevIndex int
		PrevTerm  uint64
		Entries   []Entry
		Commit    int
	}
	// Appended is the answer: up to Match the logs are equal, if OK.
	Appended struct {
		Term  uint64
		From  int
		OK    bool
		Match int
	}

	electionTimeout struct{}
	heartbeat       struct{}
)

func (Propose) raft()         {}
func (List) raft()            {}
func (RequestVote) raft()     {}
func (Vote) raft()            {}
func (Append) raft()          {}
func (Appended) raft()        {}
func (electionTimeout) raft() {}
func (heartbeat) raft()       {}

// Config says who a member is and what it stands on.
type Config struct {
	ID, Members int
	Folder      Folder
	Send        func(ctx context.Context, to int, m Msg) // may lose, repeat and delay
	Rand        *rand.Rand
	Observer    Observer // may be nil
	Rules       Rules    // its zero value is the paper's
}

// Observer is told what has happened in a member.
type Observer interface {
	Leads(id int, term uint64)
	Committed(id, index int, e Entry)
}

// Rules are the points of the algorithm at which a mistake costs data. A nil function is
// the right one; the test plants others.
type Rules struct {
	// UpToDate reports whether a log is as new as another one (section 5.4.1).
	UpToDate func(lastTerm uint64, lastIndex int, otherTerm uint64, otherIndex int) bool
	// Counts reports whether a leader commits an entry that most members have (section 5.4.2).
	Counts func(entry, current uint64) bool
	// Conflicts reports whether an entry takes the place of one that is there (section 5.3).
	Conflicts func(have, got Entry) bool
}

func (r Rules) orThePapers() Rules {
	if r.UpToDate == nil {
		r.UpToDate = func(lastTerm uint64, lastIndex int, otherTerm uint64, otherIndex int) bool {
			return lastTerm > otherTerm || lastTerm == otherTerm && lastIndex >= otherIndex
		}
	}
	if r.Counts == nil {
		r.Counts = func(entry, current uint64) bool { return entry == current }
	}
	if r.Conflicts == nil {
		r.Conflicts = func(have, got Entry) bool { return have.Term != got.Term }
	}
	return r
}

type role int

const (
	follower role = iota
	candidate
	leader
)

const (
	heartbeatEvery = 50 * time.Millisecond
	electionAfter  = 150 * time.Millisecond // to twice that
)

// Member is an actor that takes part in the agreement.
type Member struct {
	Config
	stable

	role      role
	committed int
	votes     map[int]bool // of a candidate
	next      []int        // of a leader, by member: the index of the first entry to send
	match     []int        // of a leader, by member: up to where the logs are equal
	waiting   map[int]*actor.Promised[int]
}

// NewMember returns a member that has read nothing yet.
func NewMember(cfg Config) *Member {
	cfg.Rules = cfg.Rules.orThePapers()
	return &Member{Config: cfg, stable: stable{folder: cfg.Folder}, waiting: map[int]*actor.Promised[int]{}}
}

// Init waits for a leader.
func (m *Member) Init(ctx *actor.Context[Msg]) error {
	m.resetElection(ctx)
	return nil
}

// Receive handles one message. Before the first it reads what the member must not have
// forgotten: not in Init, for which the spawner waits. An error restarts the member.
func (m *Member) Receive(ctx *actor.Context[Msg], msg Msg) error {
	if m.file == nil {
		if err := m.load(ctx); err != nil {
			return err
		}
	}
	switch msg := msg.(type) {
	case Propose:
		return m.propose(ctx, msg)
	case List:
		list := make([]string, 0, m.committed)
		for _, e := range m.log[:m.committed] {
			list = append(list, e.Command)
		}
		actor.Reply(ctx, msg, list)
	case electionTimeout:
		return m.campaign(ctx)
	case heartbeat:
		m.replicate(ctx)
	case RequestVote:
		return m.vote(ctx, msg)
	case Vote:
		return m.count(ctx, msg)
	case Append:
		return m.follow(ctx, msg)
	case Appended:
		return m.acknowledge(ctx, msg)
	}
	return nil
}

// propose takes a command into the log of the leader.
func (m *Member) propose(ctx *actor.Context[Msg], p Propose) error {
	if m.role != leader {
		actor.Promise(ctx, p).Reject(ErrNotLeader)
		return nil
	}
	index := len(m.log) + 1
	if err := m.save(ctx, record{Term: m.term, Voted: m.voted, From: index, Log: []Entry{{m.term, p.Command}}}); err != nil {
		return err
	}
	m.waiting[index] = actor.Promise(ctx, p)
	m.match[m.ID] = index
	m.replicate(ctx)
	return nil
}

// campaign begins an election.
func (m *Member) campaign(ctx *actor.Context[Msg]) error {
	if m.role == leader {
		return nil
	}
	m.resetElection(ctx)
	if err := m.save(ctx, record{Term: m.term + 1, Voted: m.ID}); err != nil {
		return err
	}
	m.role, m.votes = candidate, map[int]bool{m.ID: true}
	index, term := m.last()
	m.broadcast(ctx, RequestVote{m.term, m.ID, index, term})
	return nil
}

// vote answers a candidate. The vote is on the disk before it leaves.
func (m *Member) vote(ctx *actor.Context[Msg], r RequestVote) error {
	if err := m.see(ctx, r.Term); err != nil {
		return err
	}
	index, term := m.last()
	free := m.voted == none || m.voted == r.From
	granted := r.Term == m.term && free && m.Rules.UpToDate(r.LastTerm, r.LastIndex, term, index)
	if granted && m.voted == none {
		if err := m.save(ctx, record{Term: m.term, Voted: r.From}); err != nil {
			return err
		}
	}
	if granted {
		m.resetElection(ctx)
	}
	m.Send(ctx, r.From, Vote{m.term, m.ID, granted})
	return nil
}

// count counts a vote; most of them make a leader.
func (m *Member) count(ctx *actor.Context[Msg], v Vote) error {
	if err := m.see(ctx, v.Term); err != nil {
		return err
	}
	if m.role != candidate || v.Term != m.term || !v.Granted {
		return nil
	}
	m.votes[v.From] = true
	if len(m.votes) <= m.Members/2 {
		return nil
	}
	m.role = leader
	m.next, m.match = make([]int, m.Members), make([]int, m.Members)
	for i := range m.next {
		m.next[i] = len(m.log) + 1
	}
	m.match[m.ID] = len(m.log)
	ctx.Cancel("election")
	ctx.Every("heartbeat", heartbeatEvery, heartbeat{})
	if m.Observer != nil {
		m.Observer.Leads(m.ID, m.term)
	}
	m.replicate(ctx)
	return nil
}

// replicate sends everybody what they lack, as far as the leader knows.
func (m *Member) replicate(ctx context.Context) {
	for to := range m.Members {
		if to == m.ID || m.role != leader {
			continue
		}
		prev := m.next[to] - 1
		m.Send(ctx, to, Append{m.term, m.ID, prev, m.termOf(prev), slices.Clone(m.log[prev:]), m.committed})
	}
}

// follow takes the leader's entries. They are on the disk before the answer leaves.
func (m *Member) follow(ctx *actor.Context[Msg], a Append) error {
	if err := m.see(ctx, a.Term); err != nil {
		return err
	}
	if a.Term < m.term {
		m.Send(ctx, a.From, Appended{Term: m.term, From: m.ID})
		return nil
	}
	m.role = follower
	m.resetElection(ctx)
	if a.PrevIndex > len(m.log) || m.termOf(a.PrevIndex) != a.PrevTerm {
		m.Send(ctx, a.From, Appended{Term: m.term, From: m.ID, Match: min(a.PrevIndex-1, len(m.log))})
		return nil
	}
	for i, e := range a.Entries {
		index := a.PrevIndex + 1 + i
		if index <= len(m.log) && !m.Rules.Conflicts(m.log[index-1], e) {
			continue
		}
		if err := m.save(ctx, record{Term: m.term, Voted: m.voted, From: index, Log: a.Entries[i:]}); err != nil {
			return err
		}
		break
	}
	match := a.PrevIndex + len(a.Entries)
	m.commit(min(a.Commit, match))
	m.Send(ctx, a.From, Appended{m.term, m.ID, true, match})
	return nil
}

// acknowledge notes what a member has, and commits what most have.
func (m *Member) acknowledge(ctx *actor.Context[Msg], a Appended) error {
	if err := m.see(ctx, a.Term); err != nil {
		return err
	}
	if m.role != leader || a.Term != m.term {
		return nil
	}
	if !a.OK {
		m.next[a.From] = max(min(m.next[a.From]-1, a.Match+1), m.match[a.From]+1)
		return nil // the next heartbeat tries again
	}
	m.match[a.From] = max(m.match[a.From], a.Match)
	m.next[a.From] = m.match[a.From] + 1
	sorted := slices.Sorted(slices.Values(m.match))
	most := sorted[(m.Members-1)/2]
	if most > m.committed && m.Rules.Counts(m.termOf(most), m.term) {
		m.commit(most)
	}
	return nil
}

// commit tells about the entries up to index, and answers who has proposed them.
func (m *Member) commit(index int) {
	for m.committed < min(index, len(m.log)) {
		m.committed++
		if m.Observer != nil {
			m.Observer.Committed(m.ID, m.committed, m.log[m.committed-1])
		}
		if p := m.waiting[m.committed]; p != nil {
			p.Resolve(m.committed)
			delete(m.waiting, m.committed)
		}
	}
}

// see follows a term that is newer: whatever the member was, it is a follower now.
func (m *Member) see(ctx *actor.Context[Msg], term uint64) error {
	if term <= m.term {
		return nil
	}
	if m.role == leader {
		ctx.Cancel("heartbeat")
		m.resetElection(ctx)
		for _, index := range slices.Sorted(maps.Keys(m.waiting)) {
			m.waiting[index].Reject(ErrNotLeader)
		}
		clear(m.waiting)
	}
	m.role = follower
	return m.save(ctx, record{Term: term, Voted: none})
}

func (m *Member) resetElection(ctx *actor.Context[Msg]) {
	ctx.After("election", electionAfter+time.Duration(m.Rand.Int64N(int64(electionAfter))), electionTimeout{})
}

func (m *Member) broadcast(ctx context.Context, msg Msg) {
	for to := range m.Members {
		if to != m.ID {
			m.Send(ctx, to, msg)
		}
	}
}
