package sqlitedb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrDamaged says that a part of a database's files is missing. Nothing was changed.
var ErrDamaged = errors.New("database files are damaged")

// ErrLacking is an ErrDamaged of a WAL that has not all that is known of it. SQLite would open the
// database without what was committed last.
var ErrLacking = fmt.Errorf("%w: a WAL lacks what was committed", ErrDamaged)

// CheckFiles looks at the files of a database in WAL mode that nobody has open: SQLite
// opens one of which a part is missing, and loses what was in that part, or says so only
// when somebody comes to read it. Each page must be in the database or in its WAL, of
// which all checksums are compared. That a whole WAL is missing cannot be seen: SQLite
// itself removes it when it is closed.
//
// The forms are those of https://www.sqlite.org/fileformat2.html.
func CheckFiles(path string, known Known) error {
	db, err := readHeader(path)
	if err != nil {
		return err
	}
	log, err := readWAL(path+"-wal", &known)
	switch {
	case err != nil:
		return err
	case db == nil && log != nil && log.bytes > 0:
		return fmt.Errorf("%w: %s is missing or empty beside %s-wal, which has %d bytes of its changes; put both files back from one copy, or restore a backup into another directory", ErrDamaged, path, path, log.bytes)
	case db == nil || !db.ours: // SQLite says what it is
		return nil
	case log != nil && log.lacks:
		return lacking(path, log, &known)
	}
	need := db.pages
	if log != nil && log.commits > 0 {
		need = log.pages
	}
	for page := db.whole + 1; page <= need; page++ {
		if page != db.lock && (log == nil || !log.has[page]) {
			return fmt.Errorf("%w: %s has %d of its %d pages, and page %d is not in its WAL either; put back a whole copy together with its WAL, or restore a backup into another directory", ErrDamaged, path, db.whole, need, page)
		}
	}
	return nil
}

// CheckWAL returns ErrLacking if the WAL of a database lacks some of what is known. A server may be using the database.
func CheckWAL(path string, known Known) error {
	log, err := readWAL(path+"-wal", &known)
	if err != nil || log == nil || !log.lacks {
		return err
	}
	return lacking(path, log, &known)
}

// lacking returns the ErrLacking of a WAL.
func lacking(path string, log *walInfo, known *Known) error {
	return fmt.Errorf("%w: %s-wal is good up to page %d of the %d that were committed: it was cut off, or a part of it was changed; put both files back from one copy, or restore a backup into another directory", ErrLacking, path, log.frames, known.frames())
}

// header is what the first page of a database says.
type header struct {
	ours  bool   // it is one of SQLite
	pages uint32 // that it is to have
	whole uint32 // that the file has
	lock  uint32 // the one at 1 GiB, which SQLite never writes
}

// open opens a file and returns its size; nil for one that is missing.
func open(path string) (f *os.File, size int64, err error) {
	if f, err = os.Open(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// readHeader returns nil for a file that is missing or empty.
func readHeader(path string) (*header, error) {
	f, length, err := open(path)
	if f == nil {
		return nil, err
	}
	defer f.Close()
	if length == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	var h [100]byte
	if _, err := io.ReadFull(f, h[:]); err != nil || !bytes.HasPrefix(h[:], []byte("SQLite format 3\x00")) {
		return &header{}, nil // what is shorter is no database
	}
	size := int64(binary.BigEndian.Uint16(h[16:]))
	if size == 1 {
		size = 65536
	}
	if size < 512 {
		return &header{}, nil
	}
	db := &header{ours: true, whole: uint32(length / size), lock: uint32(1<<30/size) + 1}
	db.pages = db.whole
	if bytes.Equal(h[24:28], h[92:96]) { // otherwise the number of pages is out of date
		db.pages = binary.BigEndian.Uint32(h[28:])
	}
	return db, nil
}

// walInfo is what a WAL has: all up to its last commit, after which a crash may have
// left anything.
type walInfo struct {
	bytes   int64 // of the file
	frames  uint32
	lacks   bool // some of the known ones
	commits int
	pages   uint32          // of the database after the last commit
	has     map[uint32]bool // the pages of commits
}

const (
	walHeaderBytes   = 32
	frameHeaderBytes = 24
)

// readWAL returns nil for a file that is missing.
func readWAL(path string, known *Known) (*walInfo, error) {
	f, length, err := open(path)
	if f == nil {
		return nil, err
	}
	defer f.Close()
	w, want := &walInfo{bytes: length, has: make(map[uint32]bool)}, known.frames()
	in := bufio.NewReaderSize(f, 1<<20)
	h := make([]byte, walHeaderBytes)
	if _, err := io.ReadFull(in, h); err != nil {
		w.lacks = want > 0
		return w, nil // a crash came before the header was written
	}
	var order binary.ByteOrder = binary.LittleEndian
	magic, size := binary.BigEndian.Uint32(h), binary.BigEndian.Uint32(h[8:])
	if magic&1 != 0 {
		order = binary.BigEndian
	}
	sum := walSum{order: order}
	sum.add(h[:24])
	if magic&^1 != 0x377f0682 || !sum.is(h[24:]) || size < 512 || size > 65536 {
		w.lacks = want > 0
		return w, nil // as SQLite takes it
	}
	w.lacks = want > 0 && known.isOf(h)
	defer func() {
		if now := make([]byte, walHeaderBytes); w.lacks {
			_, _ = f.ReadAt(now, 0)
			w.lacks = bytes.Equal(now, h) // otherwise it has begun anew meanwhile
		}
	}()
	frame := make([]byte, frameHeaderBytes+size)
	var fresh []uint32 // since the last commit
	for {
		if _, err := io.ReadFull(in, frame); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return w, err
		}
		sum.add(frame[:8])
		sum.add(frame[frameHeaderBytes:])
		if !bytes.Equal(frame[8:16], h[16:24]) || !sum.is(frame[16:]) {
			return w, nil // of a time before, or torn
		}
		if w.frames++; w.frames == want && known.ends(&sum) {
			w.lacks = false
		}
		fresh = append(fresh, binary.BigEndian.Uint32(frame))
		if pages := binary.BigEndian.Uint32(frame[4:]); pages != 0 {
			for _, page := range fresh {
				w.has[page] = true
			}
			w.pages, w.commits, fresh = pages, w.commits+1, fresh[:0]
		}
	}
}

// walSum is the running checksum of a WAL.
type walSum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

// add adds bytes, whose number must be a multiple of 8.
func (s *walSum) add(b []byte) {
	if s.order == binary.ByteOrder(binary.LittleEndian) { // nearly always: without calls by way of the interface
		for ; len(b) >= 8; b = b[8:] {
			s.s0 += binary.LittleEndian.Uint32(b) + s.s1
			s.s1 += binary.LittleEndian.Uint32(b[4:]) + s.s0
		}
		return
	}
	for ; len(b) >= 8; b = b[8:] {
		s.s0 += s.order.Uint32(b) + s.s1
		s.s1 += s.order.Uint32(b[4:]) + s.s0
	}
}

// is reports whether the sum is the one that b begins with.
func (s *walSum) is(b []byte) bool {
	return s.s0 == binary.BigEndian.Uint32(b) && s.s1 == binary.BigEndian.Uint32(b[4:])
}
