package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// child is a server in its own process, which can be killed.
type child struct {
	dir    string
	http   string
	link   link // to its broker
	client *client
	cmd    *exec.Cmd
	stderr *tail
	ended  chan struct{} // closed when the process has ended
}

// startChild starts this program as a server, and waits until it is ready.
func startChild(ctx context.Context, s scratch, args ...string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{dir: s.dir, stderr: &tail{}, ended: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, program, slices.Concat([]string{"serve", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"}, s.args, args)...)
	c.cmd.Env = append(os.Environ(), s.env...)
	c.cmd.Stderr = c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	lines := bufio.NewScanner(out)
	for c.link.addr == "" && lines.Scan() {
		switch fields := strings.Fields(lines.Text()); fields[0] {
		case "dashboard":
			c.http = strings.Trim(strings.TrimPrefix(fields[1], "http://"), "/")
		case "mqtt":
			_, c.link.addr, _ = strings.Cut(fields[1], "://")
		}
	}
	go func() {
		defer close(c.ended)
		_, _ = io.Copy(io.Discard, out) // ends with the process
		_ = c.cmd.Wait()                // it was killed, or its log says why
	}()
	if c.link.addr == "" {
		<-c.ended
		return nil, fmt.Errorf("the server did not start: %s", c.stderr)
	}
	c.client, err = newClient(c.http)
	return c, err
}

// kill ends the process like a loss of power, except that the kernel keeps what was written to its
// files.
func (c *child) kill() error {
	c.client.close()
	err := c.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("the server has ended by itself: %s", c.stderr)
	}
	<-c.ended
	return err
}

// figuresTimeout bounds the wait for the figures of a server that is very busy.
const figuresTimeout = time.Minute

// figures contains figures about a server.
type figures struct {
	cpu      float64 // seconds
	rss      float64 // bytes
	values   float64 // committed
	disk     int64   // bytes
	mapped   float64 // outputs of mappings
	lag      float64 // of the mappings, seconds
	streamed float64 // events sent to streams
}

// figures reads the server's current figures.
func (c *child) figures(ctx context.Context) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, figuresTimeout)
	defer cancel()
	resp, err := c.client.send(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	names := map[string]*float64{
		"process_cpu_seconds_total": &f.cpu, "process_resident_memory_bytes": &f.rss, "greenroom_values_total": &f.values,
		"greenroom_mapping_outputs_total": &f.mapped, "greenroom_mapping_lag_seconds": &f.lag,
		`greenroom_stream_events_total{event="change"}`: &f.streamed,
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if into := names[name]; into != nil {
			if *into, err = strconv.ParseFloat(text, 64); err != nil {
				return f, fmt.Errorf("metric %s: %w", name, err)
			}
		}
	}
	f.disk, err = diskUsed(c.dir)
	return f, errors.Join(lines.Err(), err)
}

// diskUsed returns the total size of the files in a directory, in bytes.
func diskUsed(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// maxTail bounds the bytes kept by a tail.
const maxTail = 8 << 10

// tail is a Writer that keeps the end of its input.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf); n > maxTail {
		t.buf = append(t.buf[:0], t.buf[n-maxTail:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
