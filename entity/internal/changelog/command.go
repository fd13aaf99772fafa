package changelog

import (
	"encoding/binary"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/wire"
)

// commandFormat is the version of the form of a command.
const commandFormat = 1

// flagParallel is a flag of a command.
const flagParallel = 1

// AppendCommand appends a command without its entity, as the change log and the stores keep it:
//
//	version, state, flags        a byte each
//	id, name, key, by, error     uvarint length, bytes
//	created, expires, timeout, sent, delivered, ended
//	                             varint
//	attempts                     uvarint
//	request, progress, result    value
func AppendCommand(dst []byte, c *entity.Command) []byte {
	flags := byte(0)
	if c.Parallel {
		flags |= flagParallel
	}
	dst = append(dst, commandFormat, byte(c.State), flags)
	for _, text := range [...]string{c.ID, c.Name, c.Key, c.By, c.Error} {
		dst = appendText(dst, text)
	}
	for _, n := range [...]int64{c.Created, c.Expires, c.Timeout, c.Sent, c.Delivered, c.Ended} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = binary.AppendUvarint(dst, uint64(c.Attempts))
	return appendValue(appendValue(appendValue(dst, c.Request), c.Progress), c.Result)
}

// DecodeCommand reads a command of an entity that AppendCommand has written. It returns ErrDamaged
// for anything else, and does not retain data.
func DecodeCommand(data []byte, id string) (entity.Command, error) {
	d := decoder{Reader: wire.Reader{Data: data}}
	c := d.command(id)
	if d.Failed || len(d.Data) > 0 {
		return entity.Command{}, fmt.Errorf("command of %q: %w", id, ErrDamaged)
	}
	return *c, nil
}

func (d *decoder) command(id string) *entity.Command {
	c := &entity.Command{Entity: id}
	if d.Byte() != commandFormat {
		d.Fail()
	}
	c.State = entity.CommandState(d.Byte())
	if c.State < entity.CommandQueued || c.State > entity.CommandCanceled {
		d.Fail()
	}
	c.Parallel = d.Byte()&flagParallel != 0
	for _, text := range [...]*string{&c.ID, &c.Name, &c.Key, &c.By, &c.Error} {
		*text = d.Text()
	}
	for _, n := range [...]*int64{&c.Created, &c.Expires, &c.Timeout, &c.Sent, &c.Delivered, &c.Ended} {
		*n = d.Varint()
	}
	c.Attempts = int(d.Uvarint())
	c.Request, c.Progress, c.Result = d.value(), d.value(), d.value()
	return c
}

// Ended counts the ended commands by the number of their entity, so that a store need not check for
// each whether there are too many. The zero Ended is ready for use. It is not safe for concurrent
// use.
type Ended struct{ since map[int64]int }

const (
	// endedStep is how many more than MaxEndedCommands may be kept.
	endedStep = entity.MaxEndedCommands / 10
	// maxEnded is how many entities are counted before all are counted anew.
	maxEnded = 1 << 16
)

// Due counts n more ended commands of an entity and reports whether the store has to check, as it
// must for an entity that has not been counted yet.
func (e *Ended) Due(num int64, n int) bool {
	if e.since == nil || len(e.since) >= maxEnded {
		e.since = make(map[int64]int)
	}
	before, ok := e.since[num]
	if ok && before+n < endedStep {
		e.since[num] = before + n
		return false
	}
	e.since[num] = 0
	return true
}
