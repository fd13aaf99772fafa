package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startLimit is how long a started server may take to answer. It has nothing
// to compile any more; the rest is for loaded machines.
const startLimit = 60 * time.Second

// process is a greenroom server under test that can be stopped and started
// again on the same data and the same ports.
type process struct {
	binary string
	args   []string
	url    string
	client *http.Client // for url

	cmd    *exec.Cmd
	exited chan error
	output *lockedBuffer
	mqtt   string // host:port
}

// lockedBuffer takes the output of a process while a failing test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// buildDir is where buildGreenroom leaves the program.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "greenroom-browsertest-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir) // of no use to anybody
	os.Exit(code)
}

// buildGreenroom compiles the command, once for all tests.
var buildGreenroom = sync.OnceValues(func() (binary string, err error) {
	binary = filepath.Join(buildDir, "greenroom")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./cmd/greenroom")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/greenroom: %w\n%s", err, out)
	}
	return binary, nil
})

// newProcess prepares a process that has its own data and ports. It is not started yet.
func newProcess(t *testing.T) *process {
	t.Helper()
	binary, err := buildGreenroom()
	if err != nil {
		t.Fatal(err)
	}
	httpAddr, mqttAddr := freeAddr(t), freeAddr(t)
	return &process{
		binary: binary,
		args: []string{
			"serve", "--demo",
			"--data", filepath.Join(t.TempDir(), "data"), "--http", httpAddr, "--mqtt", mqttAddr,
		},
		url: "http://" + httpAddr, client: http.DefaultClient, mqtt: mqttAddr,
	}
}

// freeAddr names a loopback port that was free a moment ago. The server has to
// be told its ports, because a restart must find the browser's again.
func freeAddr(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// start runs the server and returns when it answers.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.output = &lockedBuffer{}
	// Not bound to the test's context: that ends with a kill, and stop tests the orderly way.
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start greenroom: %v", err)
	}
	p.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(p.cmd, p.exited)

	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := p.awaitHealth(ctx); err != nil {
		p.kill()
		t.Fatalf("greenroom serve: %v\n%s", err, p.output)
	}
}

// awaitHealth returns when the server answers, ends, or takes too long.
func (p *process) awaitHealth(ctx context.Context) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := checkHealth(ctx, p.client, p.url)
		if err == nil {
			return nil
		}
		select {
		case exit := <-p.exited:
			p.cmd = nil
			return fmt.Errorf("ended before it answered: %w", exit)
		case <-ctx.Done():
			return fmt.Errorf("did not answer: %w", err)
		case <-ticker.C:
		}
	}
}

// checkHealth asks once.
func checkHealth(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz answered %s", res.Status)
	}
	return nil
}

// stop ends the server as an operator does and expects it to end well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal greenroom: %v", err)
	}
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case err := <-p.exited:
		if err != nil {
			t.Errorf("greenroom ended with %v after SIGTERM\n%s", err, p.output)
		}
	case <-limit.C:
		p.kill()
		t.Errorf("greenroom did not end after SIGTERM\n%s", p.output)
	}
	p.cmd = nil
}

// kill ends the server at once and waits until it is gone.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself, which is as good
	<-p.exited               //nolint:errcheck // how a killed process ended is known
	p.cmd = nil
}

// findBrowser returns the path of a Chromium, or what to do to have one.
func findBrowser() (path, missing string) {
	if named := os.Getenv("GREENROOM_BROWSER"); named != "" {
		found, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Sprintf("GREENROOM_BROWSER is %q, which cannot be run: %v", named, err)
		}
		return found, ""
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, ""
		}
	}
	return "", "no chromium, chromium-browser or google-chrome on the PATH; on Debian: apt-get install chromium"
}
