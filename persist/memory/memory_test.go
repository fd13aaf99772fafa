package memory_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
	"github.com/greenroom-go/greenroom/persist/memory"
)

func TestConformance(t *testing.T) {
	files := map[string]*file{}
	journaltest.Run(t, journaltest.Store{
		Open: func(t *testing.T, dir string) persist.Journal {
			if files[dir] == nil {
				files[dir] = &file{rand: rand.New(rand.NewPCG(1, 2))}
			}
			j, err := memory.Open(t.Context(), files[dir])
			if err != nil {
				t.Fatal(err)
			}
			return j
		},
		Crash: func(_ *testing.T, _ persist.Journal, dir string) { files[dir].crash() },
	})
}

// file is a file that forgets at a crash what was not synced, and whose writes and syncs fail.
type file struct {
	rand         *rand.Rand
	data, synced []byte
	fail         int // how many of the next operations fail
}

var errBroken = errors.New("the disk does not answer")

func (f *file) broken() error {
	if f.fail > 0 {
		f.fail--
		return errBroken
	}
	return nil
}

func (f *file) Size() int64 { return int64(len(f.data)) }

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, f.data[min(off, f.Size()):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes half of it when it fails.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	err := f.broken()
	if err != nil {
		p = p[:len(p)/2]
	}
	if end := off + int64(len(p)); end > f.Size() {
		f.data = append(f.data, make([]byte, end-f.Size())...)
	}
	return copy(f.data[off:], p), err
}

func (f *file) Truncate(size int64) error {
	f.data = f.data[:size]
	return nil
}

func (f *file) Sync(context.Context) error {
	if err := f.broken(); err != nil {
		return err
	}
	f.synced = slices.Clone(f.data)
	return nil
}

// crash keeps what was synced, and by chance some of what was written after it.
func (f *file) crash() {
	n := len(f.synced)
	if more := len(f.data) - n; more > 0 {
		n += f.rand.IntN(more)
	}
	f.data = append(slices.Clone(f.synced), f.data[len(f.synced):n]...)
}

func TestFailedCommitIsWrittenOnceWhenItIsTriedAgain(t *testing.T) {
	for fail := 1; fail <= 2; fail++ { // the write alone, and the sync after it
		f := &file{rand: rand.New(rand.NewPCG(3, 4))}
		j, err := memory.Open(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		event := persist.Payload{Type: "t", Data: []byte("a longer text than the one that comes after it")}
		b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event}}}}
		for f.fail = fail; f.fail > 0; {
			if err := j.Commit(t.Context(), b); !errors.Is(err, errBroken) {
				t.Fatalf("commit: %v", err)
			}
			if l, err := j.Load(t.Context(), []string{"a"}); err != nil || l[0].Last != 0 {
				t.Fatalf("after a commit that failed: %+v, %v", l, err)
			}
		}
		if fail == 2 { // another batch takes the place of one that was given up
			b = &persist.Batch{Number: 2, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{{Type: "t"}}}}}
		}
		if err := j.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		f.crash()
		if j, err = memory.Open(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if l, err := j.Load(t.Context(), []string{"a"}); err != nil || l[0].Last != 1 || len(l[0].Events) != 1 || len(l[0].Events[0].Data) != len(b.Appends[0].Events[0].Data) {
			t.Errorf("after the crash: %+v, %v", l, err)
		}
	}
}
