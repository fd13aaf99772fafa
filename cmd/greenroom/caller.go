package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// caller is one HTTP/1.1 connection of a benchmark, with one request in flight. The benchmark
// shares the machine with the server that it measures, and net/http's client, which passes a
// request through three goroutines, uses half as much CPU as the server. This one writes a request
// and reads its response, which net/http parses. It must not be used concurrently.
type caller struct {
	addr    string
	nc      net.Conn
	in      *bufio.Reader
	release func() bool // stops watching the context
	request []byte
	answer  bytes.Buffer
	judging time.Duration // time spent on evaluating responses, which does not count as the server's
}

// callPatience bounds a request.
const callPatience = time.Minute

// newCaller connects to a server. When ctx ends, it interrupts the request in flight.
func newCaller(ctx context.Context, addr string) (*caller, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, noAnswer(addr, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	return &caller{addr: addr, nc: nc, in: bufio.NewReaderSize(nc, 16<<10), release: stop}, nil
}

func (c *caller) close() {
	c.release()
	_ = c.nc.Close()
}

// do makes a request and reads the whole response, which it decodes into v unless that is nil. If
// the request fails, the error contains the server's text.
func (c *caller) do(method, path, media, body string, v any, header ...string) error {
	c.encode(method, path, media, body, header)
	status, err := c.exchange()
	if err != nil {
		return noAnswer(c.addr, err)
	}
	began := time.Now()
	defer func() { c.judging += time.Since(began) }()
	if status >= http.StatusBadRequest {
		return refused(status, c.answer.Bytes())
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(c.answer.Bytes(), v); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

func (c *caller) get(path string, v any) error { return c.do(http.MethodGet, path, "", "", v) }

// encode writes a request into the buffer.
func (c *caller) encode(method, path, media, body string, header []string) {
	b := c.request[:0]
	b = append(append(append(b, method...), ' '), path...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.addr...)
	b = append(b, "\r\nUser-Agent: greenroom-bench\r\n"...)
	if media != "" {
		b = append(append(b, "Content-Type: "...), media...)
		b = append(b, "\r\n"...)
	}
	for i := 0; i < len(header); i += 2 {
		b = append(append(b, header[i]...), ": "...)
		b = append(append(b, header[i+1]...), "\r\n"...)
	}
	if body != "" {
		b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10)
		b = append(b, "\r\n"...)
	}
	c.request = append(append(b, "\r\n"...), body...)
}

// exchange sends the request and reads the response.
func (c *caller) exchange() (status int, err error) {
	if err := c.nc.SetDeadline(time.Now().Add(callPatience)); err != nil {
		return 0, err
	}
	if _, err := c.nc.Write(c.request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	c.answer.Reset()
	if _, err := c.answer.ReadFrom(resp.Body); err != nil {
		return 0, err
	}
	if resp.Close {
		return 0, errors.New("the server closes the connection")
	}
	return resp.StatusCode, nil
}
