package wire

import "fmt"

// Sizes of a splitter's buffer. It begins small, since most connections are idle, and
// doubles while reads fill it.
const (
	splitterMin = 4 << 10
	splitterMax = 256 << 10
)

// Frame is one frame. Its body refers to the buffer it was read from.
type Frame struct {
	Kind Kind
	Body []byte
}

// Size returns how many bytes the frame takes.
func (f Frame) Size() int { return FrameHead + len(f.Body) }

// Splitter cuts a stream of bytes into frames. Its buffer grows as bytes arrive, never
// because a length was announced. The zero Splitter accepts frames up to [MaxHello]. It
// is not safe for concurrent use.
type Splitter struct {
	buf   []byte
	begin int // of what has not been cut
	end   int // of what has arrived
	full  bool
	limit int // the longest frame, kind included
}

// Limit sets the length of the longest frame that is accepted, from 1 to [MaxFrame].
func (s *Splitter) Limit(n int) { s.limit = n }

// Space returns room for bytes that arrive: read into it, and call [Splitter.Fill]. It
// makes what [Splitter.Next] has returned invalid.
func (s *Splitter) Space() []byte {
	if s.begin == s.end {
		s.begin, s.end = 0, 0
		if len(s.buf) > splitterMax { // a long frame has passed
			s.buf = nil
		}
	}
	rest, size := s.buf[s.begin:s.end], len(s.buf)
	switch {
	case size == 0:
		size = splitterMin
	case s.full && size < splitterMax, len(rest) > size/2:
		size *= 2
	}
	s.full = false
	switch {
	case size != len(s.buf):
		s.buf = make([]byte, size)
		s.begin, s.end = 0, copy(s.buf, rest)
	case size-s.end < size/4:
		s.begin, s.end = 0, copy(s.buf, rest)
	}
	return s.buf[s.end:]
}

// Fill says that n bytes were read into what [Splitter.Space] returned.
func (s *Splitter) Fill(n int) {
	s.end += n
	s.full = s.end == len(s.buf)
}

// Write takes the bytes p and returns their number. It returns no error.
func (s *Splitter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := copy(s.Space(), rest)
		s.Fill(n)
		rest = rest[n:]
	}
	return len(p), nil
}

// Reset drops what has not been cut.
func (s *Splitter) Reset() { s.begin, s.end = 0, 0 }

// Next returns the next frame, and whether it is complete. It is valid until the next
// call of Space or Write. The error is a [*ViolationError].
func (s *Splitter) Next() (f Frame, ok bool, err error) {
	p := s.buf[s.begin:s.end]
	if len(p) < FrameHead {
		return Frame{}, false, nil
	}
	length := int(p[0])<<16 | int(p[1])<<8 | int(p[2])
	limit := s.limit
	if limit == 0 {
		limit = MaxHello
	}
	if length == 0 || length > limit {
		return Frame{}, false, &ViolationError{"frame length", fmt.Sprintf("the length of a frame must be from 1 to %d, not %d", limit, length)}
	}
	if len(p) < FrameHead-1+length {
		return Frame{}, false, nil
	}
	s.begin += FrameHead - 1 + length
	return Frame{Kind(p[3]), p[FrameHead : FrameHead-1+length : FrameHead-1+length]}, true, nil
}

// ViolationError is what is wrong with bytes from a peer.
type ViolationError struct {
	// Cause is one of few words, under which violations are counted.
	Cause string
	// Text says what must be and what is.
	Text string
}

// Error returns the text.
func (v *ViolationError) Error() string { return "protocol violation: " + v.Text }

// BeginFrame appends the head of a frame, whose length [EndFrame] sets.
func BeginFrame(dst []byte, k Kind) []byte { return append(dst, 0, 0, 0, byte(k)) }

// EndFrame sets the length of the frame that begins at dst[at:] and ends where dst does.
func EndFrame(dst []byte, at int) {
	n := len(dst) - at - (FrameHead - 1)
	dst[at], dst[at+1], dst[at+2] = byte(n>>16), byte(n>>8), byte(n)
}

// AppendFrame appends a frame with a body of at most [MaxFrame] - 1 bytes.
func AppendFrame(dst []byte, k Kind, body []byte) []byte {
	at := len(dst)
	dst = append(BeginFrame(dst, k), body...)
	EndFrame(dst, at)
	return dst
}

// SplitKept returns the frame at the beginning of p, which holds whole frames, and the rest.
func SplitKept(p []byte) (f Frame, rest []byte) {
	end := FrameHead - 1 + (int(p[0])<<16 | int(p[1])<<8 | int(p[2]))
	return Frame{Kind(p[3]), p[FrameHead:end:end]}, p[end:]
}
