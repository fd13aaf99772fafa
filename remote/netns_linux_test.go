package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/killtest"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
)

// nodeVariable makes the test binary the node a of a process of its own: its value is the address.
const (
	nodeVariable   = "GREENROOM_TEST_NODE"
	resumeVariable = "GREENROOM_TEST_RESUME"
)

const secret = "a secret of these tests"

func TestMain(m *testing.M) {
	if addr := os.Getenv(nodeVariable); addr != "" {
		if err := runNode(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runNode is the node a. It prints its address, and which nodes it has lost.
func runNode(addr string) error {
	sys := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	actor.Spawn[msg](sys, "counter", newCounter)
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[actor.NodeDown], d actor.NodeDown) error {
		fmt.Println("lost", d.Node)
		return nil
	}))
	resume, err := time.ParseDuration(os.Getenv(resumeVariable))
	if err != nil {
		return err
	}
	n, err := remote.Listen(sys, remote.Config{Addr: addr, Secret: secret, Types: types, ResumeWithin: resume})
	if err != nil {
		return err
	}
	fmt.Println("address", n.Addr())
	select {}
}

// far is a node of another process, and one of this process that knows it.
type far struct {
	process *exec.Cmd
	lines   *bufio.Reader
	node    *remote.Node
	counter actor.Ref[msg]
	events  <-chan actor.Event
	told    int
}

// startFar starts the node a by a program, or by itself, and finds its counter.
func startFar(t *testing.T, program []string, addr string, resume time.Duration) *far {
	t.Helper()
	f := &far{}
	f.process = killtest.Command(t, program, nodeVariable+"="+addr)
	f.process.Env = append(f.process.Env, resumeVariable+"="+resume.String())
	f.lines = killtest.Begin(t, f.process)
	_, f.node = start(t, "b", remote.Config{Peers: map[string]string{"a": f.says(t, "address ")}, Secret: secret, ResumeWithin: resume})
	t.Cleanup(func() { f.node.Disconnect("a") }) // nobody waits for a process that ends with the test
	f.events = nodeEvents(f.node.System())
	f.counter = find(t, f.node, "a", "/counter")
	return f
}

// says reads a line of the process and returns what comes after the prefix that it must have.
func (f *far) says(t *testing.T, prefix string) string {
	t.Helper()
	line, err := f.lines.ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), prefix)
	if !ok {
		t.Fatalf("it says %q and not %q; %v", line, prefix, err)
	}
	return rest
}

// tell tells the counter n numbers more.
func (f *far) tell(n int) {
	for range n {
		f.counter.Tell(bg, add{f.told})
		f.told++
	}
}

// complete says which number is not at its place.
func (f *far) complete(t *testing.T) {
	t.Helper()
	got, err := actor.Ask(within(t), f.counter, list{})
	if err != nil || len(got) != f.told {
		t.Fatalf("%d numbers of %d have come; %v", len(got), f.told, err)
	}
	for i, n := range got {
		if n != i {
			t.Fatalf("number %d is %d", i, n)
		}
	}
}

// stop stops the process, as a debugger or a full machine does.
func (f *far) stop(t *testing.T) {
	t.Helper()
	if err := f.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(f.process.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it is not stopped: %v, %v", status, err)
	}
}

func (f *far) goOn(t *testing.T) {
	t.Helper()
	if err := f.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// await waits until the session with a is in a state.
func (f *far) await(t *testing.T, state string) {
	t.Helper()
	for {
		for _, p := range f.node.Peers() {
			if p.State == state {
				return
			}
		}
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// lose expects all that is due when a is lost, after something has gone wrong.
func (f *far) lose(t *testing.T, wrong func()) {
	t.Helper()
	f.tell(100)
	f.complete(t)
	ended := make(chan actor.Down, 1)
	f.node.System().AfterEnd(f.counter.PID(), func(d actor.Down) { ended <- d })
	wrong()
	f.tell(50)
	asked := actor.AskFuture(bg, f.counter, get{}, actor.Within(time.Minute))
	if _, err := asked.Wait(context.Background()); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("the ask ends with %v", err)
	}
	if d := <-ended; d.Reason != actor.NoConnection {
		t.Errorf("the watch ends with %+v", d)
	}
	<-f.events // it was up
	if down, ok := (<-f.events).(actor.NodeDown); !ok || down.Dropped+down.Unknown < 51 || down.Dropped+down.Unknown != f.node.System().Stats().DeadLetters {
		t.Errorf("got %+v, and %d dead letters", down, f.node.System().Stats().DeadLetters)
	}
}

// namespaces are numbered, so that tests can run at once.
var namespaces atomic.Uint32

// namespace makes a network namespace that is connected with this one. It returns what runs a program
// there, the address there, and what cuts and mends the connection.
func namespace(t *testing.T) (program []string, addr string, cut func(bool)) {
	t.Helper()
	n := namespaces.Add(1)
	name, link := fmt.Sprintf("greenroom-%d-%d", os.Getpid(), n), fmt.Sprintf("gr%d-%d", os.Getpid()%100_000, n)
	here, there := fmt.Sprintf("10.231.%d.%d", os.Getpid()%250, 4*n+1), fmt.Sprintf("10.231.%d.%d", os.Getpid()%250, 4*n+2)
	ip := func(args ...string) error {
		if out, err := exec.CommandContext(context.Background(), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := ip("netns", "add", name); err != nil {
		t.Skipf("NOT TESTED: partitions need root and network namespaces: %v", err)
	}
	t.Cleanup(func() {
		if err := ip("netns", "delete", name); err != nil {
			t.Error(err)
		}
	})
	for _, args := range [][]string{
		{"link", "add", link, "type", "veth", "peer", "name", "there", "netns", name},
		{"address", "add", here + "/30", "dev", link},
		{"link", "set", link, "up"},
		{"-n", name, "address", "add", there + "/30", "dev", "there"},
		{"-n", name, "link", "set", "there", "up"},
	} {
		if err := ip(args...); err != nil {
			t.Skipf("NOT TESTED: partitions need a pair of interfaces: %v", err)
		}
	}
	return []string{"ip", "netns", "exec", name}, there + ":0", func(is bool) {
		t.Helper()
		state := map[bool]string{true: "down", false: "up"}[is]
		if err := ip("-n", name, "link", "set", "there", state); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNetnsPartitionThatEndsInTimeLosesNothing(t *testing.T) {
	t.Parallel()
	program, addr, cut := namespace(t)
	f := startFar(t, program, addr, time.Minute)
	f.tell(1000)
	for range 2 { // too short to be noticed
		cut(true)
		f.tell(1000)
		cut(false)
		f.complete(t)
	}
	cut(true)
	f.tell(1000)
	f.await(t, "broken") // since the peer is silent
	f.tell(1000)
	cut(false)
	f.complete(t)
	if p := f.node.Peers()[0]; p.Reconnects == 0 || p.Resent == 0 {
		t.Errorf("nothing was resumed: %+v", p)
	}
}

func TestNetnsPartitionThatLastsIsReportedByBoth(t *testing.T) {
	t.Parallel()
	program, addr, cut := namespace(t)
	f := startFar(t, program, addr, time.Second)
	f.lose(t, func() { cut(true) })
	if node := f.says(t, "lost "); node != "b" {
		t.Errorf("it has lost %q", node)
	}
	cut(false)
	if _, err := remote.Find[msg](within(t), f.node, "a", "/counter"); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("what was lost is spoken to: %v", err)
	}
}

func TestAProcessThatIsStoppedForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	f := startFar(t, nil, "127.0.0.1:0", time.Minute)
	f.tell(1000)
	f.stop(t)
	f.tell(1000)
	f.await(t, "broken")
	f.tell(1000)
	f.goOn(t)
	f.complete(t)
}

func TestAProcessThatIsStoppedForLongIsLost(t *testing.T) {
	t.Parallel()
	f := startFar(t, nil, "127.0.0.1:0", time.Second)
	f.lose(t, func() { f.stop(t) })
	f.goOn(t)
	if node := f.says(t, "lost "); node != "b" {
		t.Errorf("it has lost %q", node)
	}
	if _, err := remote.Find[msg](within(t), f.node, "a", "/counter"); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("what was lost is spoken to: %v", err)
	}
}

// TestAShutdownDoesNotWaitForAProcessThatHasEnded has one that ends without a word, and could come back for an hour.
func TestAShutdownDoesNotWaitForAProcessThatHasEnded(t *testing.T) {
	t.Parallel()
	f := startFar(t, nil, "127.0.0.1:0", time.Hour)
	f.tell(10)
	f.complete(t)
	if err := f.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.await(t, "broken")
	f.tell(10)
	report, err := f.node.System().Shutdown(within(t))
	if err != nil || report.DeadLetters == 0 {
		t.Errorf("the report is %+v, %v: want dead letters and no error", report, err)
	}
}
