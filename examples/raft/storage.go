package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// Folder is where a member keeps its file. A sim.Disk is one.
type Folder interface {
	Open(name string) (File, error)
	Rename(from, to string) error
	Sync(ctx context.Context) error // makes names outlive a crash
}

// File is a file of a Folder.
type File interface {
	io.ReaderAt
	io.WriterAt
	Size() int64
	Sync(ctx context.Context) error // makes what is written outlive a crash
}

// record is a line of the file: a change of what a member must not forget.
type record struct {
	Term  uint64
	Voted int     // the member that got the vote of this term, or none
	From  int     // the index of the first of Entries: what was there from here on is gone
	Log   []Entry `json:",omitempty"`
}

// none is nobody's ID.
const none = -1

// stable is what a member must not forget, and the file that it is in.
type stable struct {
	folder Folder
	file   File
	size   int64

	term  uint64
	voted int
	log   []Entry // that of index 1 is the first
}

const (
	fileName   = "raft"
	headerSize = 8 // the length of a record and its checksum
)

// load reads the file as far as it is whole, and writes it anew: what was read may not
// have been synced yet, and a record that is torn must not be in the middle.
func (s *stable) load(ctx context.Context) error {
	old, err := s.folder.Open(fileName)
	if err != nil {
		return err
	}
	s.term, s.voted, s.log = 0, none, nil
	data, err := io.ReadAll(io.NewSectionReader(old, 0, old.Size()))
	if err != nil {
		return err
	}
	for len(data) >= headerSize {
		size := int(binary.BigEndian.Uint32(data))
		if size == 0 || size > len(data)-headerSize {
			break
		}
		body := data[headerSize : headerSize+size]
		if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(data[4:]) {
			break
		}
		var r record
		if err := json.Unmarshal(body, &r); err != nil {
			return fmt.Errorf("a record with a good checksum cannot be read: %w", err)
		}
		s.apply(r)
		data = data[headerSize+size:]
	}
	if s.file, err = s.folder.Open(fileName + ".new"); err != nil {
		return err
	}
	s.size = 0
	if err := s.write(ctx, record{Term: s.term, Voted: s.voted, From: 1, Log: s.log}); err != nil {
		return err
	}
	if err := s.folder.Rename(fileName+".new", fileName); err != nil {
		return err
	}
	return s.folder.Sync(ctx)
}

// apply makes the change of a record.
func (s *stable) apply(r record) {
	s.term, s.voted = r.Term, r.Voted
	if r.From > 0 {
		s.log = slices.Concat(s.log[:r.From-1], r.Log)
	}
}

// save makes a change that outlives a crash when save has returned nil.
func (s *stable) save(ctx context.Context, r record) error {
	if err := s.write(ctx, r); err != nil {
		return err
	}
	s.apply(r)
	return nil
}

func (s *stable) write(ctx context.Context, r record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(body))
	if _, err := s.file.WriteAt(append(data, body...), s.size); err != nil {
		return err
	}
	s.size += int64(headerSize + len(body))
	return s.file.Sync(ctx)
}

// last returns the index and the term of the last entry, 0 and 0 without one.
func (s *stable) last() (index int, term uint64) { return len(s.log), s.termOf(len(s.log)) }

// termOf returns the term of an entry, 0 for that before the first.
func (s *stable) termOf(index int) uint64 {
	if index == 0 {
		return 0
	}
	return s.log[index-1].Term
}
