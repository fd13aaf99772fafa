package session

import (
	"slices"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// chunkSize is the capacity of a chunk, unless one frame is longer.
const chunkSize = 64 << 10

// chunk holds whole frames one after the other. Its capacity does not change, so what is in
// it stays where it is while a writer writes it and senders append to it.
type chunk struct {
	data  []byte
	first uint64 // how many frames precede it in the session
}

// log holds the frames that are not confirmed, in order. A frame is
//
//	confirmed | handed (given to a connection, once at least) | not handed
//
// Frames are counted, not marked: a chunk knows how many precede it, and within a chunk
// their lengths lead from one to the next. So a frame costs nothing but its bytes.
type log struct {
	chunks    []*chunk // the oldest first; frames are appended to the last
	total     uint64   // frames
	confirmed uint64
	handed    uint64

	at, off  int // what to hand next: a chunk and an offset in it
	inflight int // bytes that are being written
	hold     int // the first chunk that may be read by a writer, while inflight > 0

	kept      int // bytes of all chunks
	unwritten int // bytes behind what has been written, those in flight included

	free []*chunk
}

// reserve returns the chunk in which n bytes have room.
func (l *log) reserve(n int) *chunk {
	if last := len(l.chunks) - 1; last >= 0 {
		if c := l.chunks[last]; cap(c.data)-len(c.data) >= n {
			return c
		}
	}
	c := l.newChunk(n)
	c.first = l.total
	l.chunks = append(l.chunks, c)
	return c
}

func (l *log) newChunk(n int) *chunk {
	if n > chunkSize {
		return &chunk{data: make([]byte, 0, n)}
	}
	if last := len(l.free) - 1; last >= 0 {
		c := l.free[last]
		l.free = l.free[:last]
		return c
	}
	return &chunk{data: make([]byte, 0, chunkSize)}
}

// commit takes the frame that was appended to the data of the last chunk.
func (l *log) commit(c *chunk, data []byte) {
	n := len(data) - len(c.data)
	c.data = data
	l.total++
	l.kept += n
	l.unwritten += n
}

// waiting reports whether there is something to take.
func (l *log) waiting() bool { return l.unwritten > l.inflight }

// take appends what is to be written next to dst, in whole frames and about most bytes at
// most. They stay where they are until wrote is called.
func (l *log) take(dst [][]byte, most int) [][]byte {
	l.hold = l.at
	for l.at < len(l.chunks) && l.inflight < most {
		c := l.chunks[l.at]
		if rest := c.data[l.off:]; len(rest) > 0 {
			dst = append(dst, rest)
			l.inflight += len(rest)
			l.off = len(c.data)
		}
		if l.at == len(l.chunks)-1 {
			l.handed = l.total
			break
		}
		l.at, l.off = l.at+1, 0
		l.handed = max(l.handed, l.chunks[l.at].first)
	}
	return dst
}

// wrote says that what was taken has been written.
func (l *log) wrote() {
	l.unwritten -= l.inflight
	l.inflight = 0
	l.release()
}

// confirm takes the first n frames as confirmed. It is false if n is impossible.
func (l *log) confirm(n uint64) bool {
	if n < l.confirmed || n > l.handed {
		return false
	}
	l.confirmed = n
	l.release()
	return true
}

// release gives back the chunks whose frames are all confirmed and that nobody reads. One
// that is being written is kept even so: a peer that confirms what it cannot have yet
// would be sent something else's bytes.
func (l *log) release() {
	most := l.at // the chunk of the cursor stays, and what is behind it
	if l.inflight > 0 {
		most = min(most, l.hold)
	}
	n := 0
	for n < most && l.chunks[n+1].first <= l.confirmed {
		l.kept -= len(l.chunks[n].data)
		l.recycle(l.chunks[n])
		n++
	}
	if n > 0 {
		l.chunks = slices.Delete(l.chunks, 0, n)
		l.at -= n
		l.hold -= n
	}
	if len(l.chunks) == 1 && l.inflight == 0 && l.confirmed == l.total {
		c := l.chunks[0]
		l.kept, l.off, l.unwritten = 0, 0, 0
		if cap(c.data) > chunkSize {
			l.chunks, l.at = nil, 0
			return
		}
		c.data, c.first = c.data[:0], l.total
	}
}

// freeChunks is how many empty chunks a session keeps while it is busy: as much as may be
// unwritten without making senders wait.
const freeChunks = 16

func (l *log) recycle(c *chunk) {
	if cap(c.data) == chunkSize && len(l.free) < freeChunks {
		c.data = c.data[:0]
		l.free = append(l.free, c)
	}
}

// trim gives back the memory of a log in which nothing is kept.
func (l *log) trim() {
	if l.confirmed == l.total && l.inflight == 0 {
		l.chunks, l.free, l.at, l.off = nil, nil, 0, 0
	}
}

// rewind goes back to behind the first n frames, which the peer says that it has: what
// follows will be handed again. It is false if n is impossible. What was handed stays so:
// a hello may be an old one, whose sender has got more since.
func (l *log) rewind(n uint64) bool {
	l.inflight = 0
	if !l.confirm(n) {
		return false
	}
	l.at, l.off = 0, 0
	l.unwritten = 0
	for i, c := range l.chunks {
		l.unwritten += len(c.data)
		if c.first <= n {
			l.at = i
		}
	}
	if len(l.chunks) == 0 {
		return true
	}
	for _, c := range l.chunks[:l.at] {
		l.unwritten -= len(c.data)
	}
	c := l.chunks[l.at]
	for rest := c.data; n > c.first && len(rest) > 0; n-- {
		_, rest = wire.SplitKept(rest)
		l.off = len(c.data) - len(rest)
	}
	l.unwritten -= l.off
	return true
}

// each calls f with each frame that is not confirmed, and its place from 1 on.
func (l *log) each(f func(place uint64, frame wire.Frame)) {
	for _, c := range l.chunks {
		place := c.first
		for rest := c.data; len(rest) > 0; {
			var frame wire.Frame
			frame, rest = wire.SplitKept(rest)
			place++
			if place > l.confirmed {
				f(place, frame)
			}
		}
	}
}
