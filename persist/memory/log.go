package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
)

// File is where [Open] keeps a journal: a sim.File is one. What was written survives the end of its
// process once a later Sync has returned nil.
type File interface {
	io.ReaderAt
	io.WriterAt
	Size() int64
	Truncate(size int64) error
	Sync(ctx context.Context) error
}

// Open returns the journal in a file, which is empty for an empty file. From then on the file
// belongs to the journal; Close does not close it.
func Open(ctx context.Context, file File) (*Journal, error) {
	j := New()
	j.log = &log{file: file}
	err := j.log.read(func(f *frame) {
		switch {
		case f.Identity != "":
			j.identity = f.Identity
		case f.Claim != nil:
			j.shards[f.Claim.Shard] = f.Claim.Epoch
		case f.Batch != nil:
			j.apply(f.Batch)
		}
	})
	if err == nil && j.log.number == 0 {
		err = j.log.append(ctx, frame{Identity: j.identity})
	} else if err == nil {
		err = j.log.confirm(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return j, nil
}

// log is a file of frames. Each is written and synced before the next. Whatever follows the last
// whole frame was never synced, or is the rest of a failed write.
type log struct {
	file   File
	end    int64  // of the last frame
	number uint64 // of the last frame
	last   []byte // the last frame that was read
}

// frame is one of: the beginning, a claim, a batch with what was accepted of it.
type frame struct {
	Identity string
	Claim    *claim
	Batch    *persist.Batch
}

type claim struct {
	Shard string
	Epoch uint64
}

var frames = codec.NewTypes(codec.Of[frame]("frame"))

// headBytes is the length of what is before a frame's data: its length, the checksum of the
// rest, and its number.
const headBytes = 4 + 4 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append makes a frame durable. After an error the next frame overwrites it. A nil log does
// nothing.
func (l *log) append(ctx context.Context, f frame) error {
	if l == nil {
		return nil
	}
	_, data, err := frames.Append(make([]byte, headBytes), f)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(data, uint32(len(data)-headBytes))
	binary.LittleEndian.PutUint64(data[8:], l.number+1)
	binary.LittleEndian.PutUint32(data[4:], crc32.Checksum(data[8:], castagnoli))
	if l.file.Size() > l.end { // a frame that is left there must not follow this one
		if err := l.file.Truncate(l.end); err != nil {
			return err
		}
	}
	if _, err := l.file.WriteAt(data, l.end); err != nil {
		return err
	}
	if err := l.file.Sync(hidden{ctx}); err != nil {
		return err
	}
	l.end += int64(len(data))
	l.number++
	return nil
}

// confirm writes the last frame that was read once more, and syncs it: the sync of it may have
// failed, and then it can be read and is not on the disk, and no later sync brings it there. The
// frames before it were synced before it was written.
func (l *log) confirm(ctx context.Context) error {
	if _, err := l.file.WriteAt(l.last, l.end-int64(len(l.last))); err != nil {
		return err
	}
	return l.file.Sync(hidden{ctx})
}

// hidden is a context that is no handler's: a sync must not let other handlers run while
// the journal is locked.
type hidden struct{ context.Context } //nolint:containedctx // it is one

// read passes on all frames.
func (l *log) read(each func(*frame)) error {
	for {
		data, err := l.next()
		if err != nil || data == nil {
			return err
		}
		v, err := frames.Decode("frame", data[headBytes:])
		if err != nil {
			return fmt.Errorf("frame %d: %w", l.number+1, err)
		}
		f := v.(frame)
		each(&f)
		l.end += int64(len(data))
		l.number++
		l.last = data
	}
}

// next returns the next frame, nil when there is none.
func (l *log) next() ([]byte, error) {
	head := make([]byte, headBytes)
	if n, err := l.file.ReadAt(head, l.end); n < len(head) {
		return nil, notEOF(err)
	}
	length := headBytes + int64(binary.LittleEndian.Uint32(head))
	if l.end+length > l.file.Size() {
		return nil, nil
	}
	data := make([]byte, length)
	if n, err := l.file.ReadAt(data, l.end); n < len(data) {
		return nil, notEOF(err)
	}
	if crc32.Checksum(data[8:], castagnoli) != binary.LittleEndian.Uint32(data[4:]) || binary.LittleEndian.Uint64(data[8:]) != l.number+1 {
		return nil, nil
	}
	return data, nil
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
