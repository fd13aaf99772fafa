package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// ErrDisk is the error of an operation of a [Disk] that fails because of the disk's faults.
var ErrDisk = errors.New("sim: disk failure")

// errCrashed is for the handler that has crashed its own node and goes on to its end.
var errCrashed = errors.New("sim: the node has crashed")

// DiskFaults are what a disk may do wrong, in addition to forgetting at a crash what was
// not synced. The zero value is nothing.
type DiskFaults struct {
	// Fail is the probability that a write, a sync or a change of names fails with [ErrDisk] and
	// has no effect. As on Linux, when the sync of a file fails, what was written to it before is
	// not synced by a later sync either: it must be written again.
	Fail float64
	// Delay is the longest time that a sync takes; the time is drawn for each. Meanwhile the
	// handler waits, and the node may crash.
	Delay time.Duration
}

// Disk is the disk of a node: a folder of files that outlives [Node.Crash]. After a crash it has
// what was synced. Of each write since the last sync of its file it has, by chance, all, a part, or
// nothing, whatever became of earlier writes. Bytes that were never written, before ones that were,
// are zero. Names have a sync of their own: of the creations, renames and removals since the last
// [Disk.Sync], only the first few have happened.
//
// Use it only in steps of the run, as you use the [World].
type Disk struct {
	w       *World
	node    string
	faults  DiskFaults
	names   map[string]*content
	synced  map[string]*content               // the names that a crash leaves
	changes []func(names map[string]*content) // since synced
	done    int                               // how many there were before them
	life    int                               // counts crashes
}

// content is what is in a file.
type content struct {
	data   []byte
	synced []byte
	writes []diskWrite // since then
	done   int         // how many there were before them
	failed int         // up to which of all a sync has failed
}

// diskWrite is a write that is not synced, or a change of the size.
type diskWrite struct {
	off  int64
	data []byte // nil for a change of the size to off
}

func (dw *diskWrite) applyTo(data []byte) []byte {
	if dw.data == nil {
		return resize(data, dw.off)
	}
	if end := dw.off + int64(len(dw.data)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[dw.off:], dw.data)
	return data
}

// resize returns data with another size; what is added is zero.
func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}

// Disk returns the node's disk. All nodes of the same name share it, those that have crashed
// included.
func (n *Node) Disk() *Disk {
	w := n.w
	i := slices.IndexFunc(w.disks, func(d *Disk) bool { return d.node == n.name })
	if i < 0 {
		i = len(w.disks)
		w.disks = append(w.disks, &Disk{
			w: w, node: n.name, faults: w.faults.Disk, names: map[string]*content{}, synced: map[string]*content{},
		})
	}
	return w.disks[i]
}

// Faults replaces the disk's faults, which are initially those of the run.
func (d *Disk) Faults(f DiskFaults) { d.faults = f }

// Open opens a file, and creates it if it does not exist.
func (d *Disk) Open(name string) (*File, error) {
	c := d.names[name]
	if c == nil {
		if err := d.fails("create", name); err != nil {
			return nil, err
		}
		c = &content{}
		d.change(func(names map[string]*content) { names[name] = c })
	}
	return &File{d, name, c, d.life}, nil
}

// Rename gives a file another name, and replaces a file that already has that name.
func (d *Disk) Rename(from, to string) error {
	c := d.names[from]
	if c == nil {
		return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
	}
	if err := d.fails("rename", from); err != nil {
		return err
	}
	d.change(func(names map[string]*content) {
		delete(names, from)
		names[to] = c
	})
	return nil
}

// Remove removes a file. It can still be used where it is open.
func (d *Disk) Remove(name string) error {
	if d.names[name] == nil {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	if err := d.fails("remove", name); err != nil {
		return err
	}
	d.change(func(names map[string]*content) { delete(names, name) })
	return nil
}

// Names returns the names of the files, sorted.
func (d *Disk) Names() []string { return slices.Sorted(maps.Keys(d.names)) }

// Sync makes the names of the files survive a crash, but not their contents: see [File.Sync]. ctx
// is the context of the handler, which waits.
func (d *Disk) Sync(ctx context.Context) error {
	until := d.done + len(d.changes)
	if err := d.sync(ctx, d.life, "."); err != nil {
		return err
	}
	n := max(until-d.done, 0) // another sync may have ended meanwhile
	for _, change := range d.changes[:n] {
		change(d.synced)
	}
	d.changes, d.done = d.changes[n:], d.done+n
	return nil
}

func (d *Disk) change(f func(names map[string]*content)) {
	f(d.names)
	d.changes = append(d.changes, f)
}

// fails decides whether an operation fails.
func (d *Disk) fails(what, name string) error {
	if d.faults.Fail > 0 && d.w.happens(d.faults.Fail) {
		d.w.note("disk", fmt.Sprintf("%s: %s %s fails", d.node, what, name))
		return fmt.Errorf("%s %s: %w", what, name, ErrDisk)
	}
	return nil
}

// sync takes the time of a sync and says how it went.
func (d *Disk) sync(ctx context.Context, life int, name string) error {
	if d.faults.Delay > 0 {
		if handler, ok := ctx.(interface{ Sleep(d time.Duration) error }); ok {
			if err := handler.Sleep(time.Duration(d.w.diskRand.Int64N(int64(d.faults.Delay)))); err != nil {
				return fmt.Errorf("sync %s: %w", name, err)
			}
		}
	}
	if life != d.life {
		return fmt.Errorf("sync %s: %w", name, errCrashed)
	}
	return d.fails("sync", name)
}

// crash forgets what was not synced, or most of it.
func (d *Disk) crash() {
	d.life++
	r := d.w.diskRand
	names := d.synced
	for _, change := range d.changes[:r.IntN(len(d.changes)+1)] {
		change(names)
	}
	kept := map[*content]*content{} // by what it was: a file may have two names
	d.names = make(map[string]*content, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := names[name]
		if kept[c] == nil {
			kept[c] = c.survivor(r.IntN)
		}
		d.names[name] = kept[c]
	}
	d.synced, d.changes = maps.Clone(d.names), nil
}

// survivor is what a crash leaves of a file. draw(n) returns a number below n.
func (c *content) survivor(draw func(n int) int) *content {
	data := slices.Clone(c.synced)
	for _, write := range c.writes {
		switch draw(4) {
		case 0: // all of it
		case 1:
			write.data = write.data[:draw(len(write.data)+1)]
			if len(write.data) == 0 {
				continue
			}
		default:
			continue
		}
		data = write.applyTo(data)
	}
	return &content{data: slices.Clone(data), synced: data}
}

// File is an open file of a [Disk]. It needs no Close. After a crash of the node it is useless: the
// next process opens its own.
type File struct {
	disk *Disk
	name string
	c    *content
	life int
}

var (
	_ io.ReaderAt = (*File)(nil)
	_ io.WriterAt = (*File)(nil)
)

// Size returns the length of the file in bytes.
func (f *File) Size() int64 { return int64(len(f.c.data)) }

// ReadAt implements [io.ReaderAt].
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s: offset must not be negative: %d", f.name, off)
	}
	n = copy(p, f.c.data[min(off, f.Size()):])
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// WriteAt implements [io.WriterAt]. What it writes can be read at once, and survives a crash once a
// later [File.Sync] has returned nil.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("write %s: offset must not be negative: %d", f.name, off)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := f.write("write", diskWrite{off, slices.Clone(p)}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Truncate changes the length of the file; added bytes are zero. The change needs a sync, too.
func (f *File) Truncate(size int64) error {
	if size < 0 {
		return fmt.Errorf("truncate %s: size must not be negative: %d", f.name, size)
	}
	return f.write("truncate", diskWrite{off: size})
}

func (f *File) write(what string, write diskWrite) error {
	if f.life != f.disk.life {
		return fmt.Errorf("%s %s: %w", what, f.name, errCrashed)
	}
	if err := f.disk.fails(what, f.name); err != nil {
		return err
	}
	f.c.data = write.applyTo(f.c.data)
	f.c.writes = append(f.c.writes, write)
	return nil
}

// Sync makes what was written before the call survive a crash; a file that was created since the
// last [Disk.Sync] may still lose its name. ctx is the context of the handler, which waits; outside
// of a handler, as in the test's function, it takes no time.
func (f *File) Sync(ctx context.Context) error {
	first, until := f.c.done, f.c.done+len(f.c.writes)
	err := f.disk.sync(ctx, f.life, f.name)
	if err == nil && f.c.failed > first {
		err = fmt.Errorf("sync %s: of what it is for, a sync meanwhile: %w", f.name, ErrDisk)
	}
	n := max(until-f.c.done, 0) // another sync may have ended meanwhile
	if err == nil {
		for _, write := range f.c.writes[:n] {
			f.c.synced = write.applyTo(f.c.synced)
		}
	} else {
		f.c.failed = max(f.c.failed, until)
	}
	f.c.writes, f.c.done = f.c.writes[n:], f.c.done+n
	return err
}
