package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/text"
)

const (
	// kindLog is the kind of the audit log's documents. Each is a segment, keyed by its
	// number in decimal digits: an array of entries.
	kindLog = "audit"
	// segmentBytes is the size at which a segment is full. A segment is rewritten for
	// each entry that is added to it.
	segmentBytes = 16 << 10
	// MaxLogSegments bounds the audit log: beyond it, each new segment removes the
	// oldest one. A segment has about 16 KiB, or 80 entries.
	MaxLogSegments = 8192

	maxLogText = 512 // bytes of each text of an entry
)

// Entry is one entry of the audit log.
type Entry struct {
	// Seq numbers the entries from 1, without a gap.
	Seq uint64 `json:"seq"`
	// TS is the time in milliseconds since the epoch.
	TS int64 `json:"ts"`
	// Who is the name of the principal, or "" if nobody had to log in.
	Who string `json:"who"`
	// From is the client's address.
	From string `json:"from,omitempty"`
	// Action is the operation, such as deleteEntity, and What is its object.
	Action string `json:"action"`
	What   string `json:"what,omitempty"`
	// Outcome is "ok", or the reason why the operation failed.
	Outcome string `json:"outcome"`
}

// Log is the append-only audit log. This package never changes an entry; whoever can write
// to the store's files can. Create it with OpenLog. Its methods may be called concurrently.
//
// Concurrent entries are written together: the first caller writes, and continues while
// there are more.
type Log struct {
	store Store

	mu      sync.Mutex
	next    *logBatch // guarded by mu; what waits to be written, nil for none
	writing bool      // guarded by mu; there is somebody who writes

	// The contents of the last segment, owned by the caller that writes.
	segment int64
	entries []Entry
	size    int
	seq     uint64
}

// logBatch is a group of entries that are written together.
type logBatch struct {
	entries []Entry
	done    chan struct{}
	err     error // set before done is closed
}

// OpenLog finds the end of the log of a store.
func OpenLog(ctx context.Context, store Store) (*Log, error) {
	l := &Log{store: store}
	head, err := store.Doc(ctx, kindLog, "head")
	if err == nil {
		l.segment, err = strconv.ParseInt(string(head.Body), 10, 64)
	}
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if l.segment == 0 {
		return l, nil
	}
	if l.entries, err = l.read(ctx, l.segment); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	for i := range l.entries {
		l.size += l.entries[i].bytes()
		l.seq = l.entries[i].Seq
	}
	if l.seq == 0 { // begun, and nothing written to it
		before, err := l.read(ctx, l.segment-1)
		if err != nil {
			return nil, fmt.Errorf("open the audit log: %w", err)
		}
		if len(before) > 0 {
			l.seq = before[len(before)-1].Seq
		}
	}
	return l, nil
}

// read returns the entries of a segment, or none if it does not exist.
func (l *Log) read(ctx context.Context, segment int64) (entries []Entry, err error) {
	doc, err := l.store.Doc(ctx, kindLog, strconv.FormatInt(segment, 10))
	if errors.Is(err, entity.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(doc.Body, &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", segment, err)
	}
	return entries, nil
}

func (e *Entry) bytes() int {
	return 100 + len(e.Who) + len(e.From) + len(e.Action) + len(e.What) + len(e.Outcome)
}

// Add sets the Seq and TS of an entry, appends it, and returns when it is durable. Long
// texts are truncated. If ctx ends first, the entry may still be written.
func (l *Log) Add(ctx context.Context, e Entry) error {
	e.TS = time.Now().UnixMilli()
	e.Who, e.What, e.Outcome = text.Shorten(e.Who, maxLogText), text.Shorten(e.What, maxLogText), text.Shorten(e.Outcome, maxLogText)
	l.mu.Lock()
	if l.next == nil {
		l.next = &logBatch{done: make(chan struct{})}
	}
	batch := l.next
	batch.entries = append(batch.entries, e)
	write := !l.writing
	l.writing = true
	l.mu.Unlock()
	if write {
		go l.write()
	}
	select {
	case <-batch.done:
		return batch.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logPatience is the longest that writing a batch may take.
const logPatience = 30 * time.Second

// write writes batches until none is left.
func (l *Log) write() {
	for {
		l.mu.Lock()
		batch := l.next
		l.next, l.writing = nil, batch != nil
		l.mu.Unlock()
		if batch == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), logPatience)
		batch.err = l.append(ctx, batch.entries)
		cancel()
		close(batch.done)
	}
}

// append writes entries to the last segment, or to a new one if that is full.
func (l *Log) append(ctx context.Context, list []Entry) error {
	if l.segment == 0 || l.size >= segmentBytes {
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	entries, size, seq := l.entries, l.size, l.seq
	for i := range list {
		seq++
		list[i].Seq = seq
		entries = append(entries, list[i])
		size += list[i].bytes()
	}
	body, err := json.Marshal(entries)
	if err == nil {
		_, err = l.store.PutDoc(ctx, kindLog, strconv.FormatInt(l.segment, 10), body, "")
	}
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	l.entries, l.size, l.seq = entries, size, seq
	return nil
}

// begin starts a segment.
func (l *Log) begin(ctx context.Context) error {
	next := l.segment + 1
	if _, err := l.store.PutDoc(ctx, kindLog, "head", strconv.AppendInt(nil, next, 10), ""); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	if old := next - MaxLogSegments; old > 0 {
		if err := l.store.DeleteDoc(ctx, kindLog, strconv.FormatInt(old, 10), ""); err != nil && !errors.Is(err, entity.ErrNotFound) {
			return fmt.Errorf("write the audit log: %w", err)
		}
	}
	l.segment, l.entries, l.size = next, nil, 0
	return nil
}

// Entries returns up to limit entries with a Seq less than before, newest first; 0 means
// from the newest on. Entries that are being written may be missing.
func (l *Log) Entries(ctx context.Context, before uint64, limit int) ([]Entry, error) {
	head, err := l.store.Doc(ctx, kindLog, "head")
	if errors.Is(err, entity.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	segment, err := strconv.ParseInt(string(head.Body), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	oldest := max(0, segment-MaxLogSegments)
	if before != 0 {
		if segment, err = l.lastBefore(ctx, oldest, segment, before); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
	}
	var list []Entry
	for ; segment > oldest && len(list) < limit; segment-- {
		entries, err := l.read(ctx, segment)
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for i := len(entries) - 1; i >= 0 && len(list) < limit; i-- {
			if before == 0 || entries[i].Seq < before {
				list = append(list, entries[i])
			}
		}
	}
	return list, nil
}

// lastBefore returns the last segment after oldest that has an entry with a Seq less than before.
func (l *Log) lastBefore(ctx context.Context, oldest, newest int64, before uint64) (int64, error) {
	var failed error
	n := sort.Search(int(newest-oldest), func(i int) bool {
		entries, err := l.read(ctx, oldest+1+int64(i))
		failed = errors.Join(failed, err)
		return len(entries) == 0 && i > 0 || len(entries) > 0 && entries[0].Seq >= before
	})
	return oldest + int64(n), failed
}
