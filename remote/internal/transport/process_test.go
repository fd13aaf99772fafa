package transport

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/session"
)

// childVariable makes the test binary a node of its own: its value is the incarnation.
const childVariable = "GREENROOM_TEST_CHILD"

func TestMain(m *testing.M) {
	if inc, err := strconv.Atoi(os.Getenv(childVariable)); err == nil {
		if err := runChild(uint32(inc)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild is the node of another process. It prints its address, and how many messages it
// has before it confirms them.
func runChild(inc uint32) error {
	p := &printer{party: newParty("child")}
	tr, err := Listen(Config{Addr: "127.0.0.1:0", Secret: secret, Log: quiet}, session.Config{Node: "child", Cluster: "test", Incarnation: inc}, p)
	if err != nil {
		return err
	}
	tr.Start()
	fmt.Printf("address %s\n", tr.Addr())
	select {}
}

// printer is a party that prints what it gets.
type printer struct {
	*party
	messages int
}

func (p *printer) Messages(_ *session.Session, _ *session.Known, run []session.Received) {
	p.messages += len(run)
	fmt.Printf("messages %d\n", p.messages)
}

// child is another process.
type child struct {
	cmd   *exec.Cmd
	addr  string
	lines chan string
}

func startChild(t *testing.T, inc int) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0]), lines: make(chan string, 100_000)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+strconv.Itoa(inc))
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { c.kill() })
	c.addr, _ = strings.CutPrefix(<-c.lines, "address ")
	return c
}

// kill ends the process as kill -9 does, and returns how many messages it has said it got.
func (c *child) kill() (messages int) {
	_ = c.cmd.Process.Kill()
	for line := range c.lines {
		if n, ok := strings.CutPrefix(line, "messages "); ok {
			messages, _ = strconv.Atoi(n)
		}
	}
	_ = c.cmd.Wait()
	return messages
}

func TestTheBooksAreExactWhenAProcessIsKilled(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	one := startChild(t, 11)
	addr := one.addr
	p := newParty("p")
	start(t, p, 1, Config{Secret: secret, Resolve: func(string) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return addr, true
	}}, session.Config{ResumeWithin: 3 * time.Second})
	p.send(t, "child", "child~11/x", 0, 20_000)
	<-one.lines // it has some of them
	got := one.kill()
	p.send(t, "child", "child~11/x", 20_000, 20_100)
	two := startChild(t, 12)
	mu.Lock()
	addr = two.addr
	mu.Unlock()
	l := p.lost(t)
	if !errors.Is(l.Err, session.ErrIncarnation) && !errors.Is(l.Err, session.ErrExpired) && !strings.Contains(l.Err.Error(), "unknown session") {
		t.Errorf("the loss: %v", l.Err)
	}
	if l.Incarnation != 11 || l.Sent != 20_100 || l.Dropped+l.Unknown < 100 {
		t.Errorf("the loss of incarnation %d: %d sent, %d dropped, %d unknown", l.Incarnation, l.Sent, l.Dropped, l.Unknown)
	}
	least, most := int(l.Sent-l.Dropped-l.Unknown), int(l.Sent-l.Dropped)
	t.Logf("%d handled, %d confirmed, %d written, %d sent: %v", got, least, most, l.Sent, l.Err)
	if got < least || got > most {
		t.Errorf("it has %d messages; it has confirmed %d, and %d were written", got, least, most)
	}
	p.send(t, "child", "child~12/x", 0, 10)
	for line := range two.lines {
		if line == "messages 10" {
			return
		}
	}
	t.Error("the next incarnation gets nothing")
}
