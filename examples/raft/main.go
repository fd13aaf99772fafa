// Raft is a cluster that agrees on a list of commands, by the algorithm of the paper
// "In Search of an Understandable Consensus Algorithm" (Ongaro and Ousterhout, 2014). A
// member is an actor; what it must not forget is in a file.
//
// The program runs three members in one process and loses its leader. What makes it an
// example is its raft_test.go: package sim crashes members at any time, also in the middle
// of a write, cuts the network, delays and repeats messages, and finds each of the
// mistakes that the test plants.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "raft-")
	if err != nil {
		fmt.Fprintln(w, err)
		return
	}
	defer os.RemoveAll(dir)
	sys := actor.NewSystem("raft")
	defer sys.Shutdown(ctx)

	members := make([]actor.Ref[Msg], 3)
	for id := range members {
		members[id] = actor.Spawn[Msg](sys, fmt.Sprintf("member-%d", id), func() *Member {
			return NewMember(Config{
				ID: id, Members: len(members),
				Folder: folder(filepath.Join(dir, fmt.Sprint(id))),
				Send:   func(ctx context.Context, to int, m Msg) { members[to].Tell(ctx, m) },
				Rand:   rand.New(rand.NewPCG(uint64(id), 7)),
			})
		})
	}
	leader := propose(ctx, members, "first")
	fmt.Fprintln(w, "first is committed")
	members[leader].Stop()
	next := propose(ctx, members, "second")
	fmt.Fprintln(w, "second is committed, by another leader:", next != leader)
	<-time.After(time.Second) // a heartbeat tells the others what is committed
	for id, member := range members {
		if id == leader {
			continue
		}
		list, err := actor.Ask(ctx, member, List{})
		fmt.Fprintln(w, "committed:", list, err)
	}
}

// propose asks one after the other until a leader has committed a command, and returns it.
func propose(ctx context.Context, members []actor.Ref[Msg], command string) (leader int) {
	for id := 0; ; id = (id + 1) % len(members) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, err := actor.Ask(short, members[id], Propose{Command: command})
		cancel()
		if err == nil {
			return id
		}
		if errors.Is(err, ErrNotLeader) {
			<-time.After(100 * time.Millisecond)
		}
	}
}

// folder is a folder of the operating system.
type folder string

func (f folder) Open(name string) (File, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_RDWR|os.O_CREATE, 0o600)
	return osFile{file}, err
}

func (f folder) Rename(from, to string) error {
	return os.Rename(filepath.Join(string(f), from), filepath.Join(string(f), to))
}

func (f folder) Sync(context.Context) error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

type osFile struct{ *os.File }

func (f osFile) Sync(context.Context) error { return f.File.Sync() }

func (f osFile) Size() int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}
