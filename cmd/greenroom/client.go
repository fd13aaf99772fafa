package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/server"
)

// maxProblem bounds what is read of a refusal.
const maxProblem = 64 << 10

// client talks to the HTTP API of a server on this machine.
type client struct {
	addr  string
	url   string // of the server, without a path
	token string // "" for none
	http  *http.Client
}

// tokenVariable is the environment variable with the token of the one who calls. A flag
// would be seen by everybody on the machine.
const tokenVariable = "GREENROOM_TOKEN"

// caVariable is the environment variable with the file of the certificates that sign that
// of the server. Without it those of the system are trusted.
const caVariable = "GREENROOM_CA"

func trust(transport *http.Transport, file string) error {
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return usagef("%s: %w", caVariable, err)
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		return usagef("%s: %s has no certificate in PEM", caVariable, file)
	}
	return nil
}

// newClient returns a client of the server at --http: https://host:port, or host:port on
// this machine, as what is sent is not encrypted then; http://host:port/ is the same.
func newClient(addr string) (*client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}
	if plain, ok := strings.CutPrefix(addr, "http://"); ok { // as the server prints it
		addr = strings.TrimSuffix(plain, "/")
	}
	base := "http://" + addr
	if secure, ok := strings.CutPrefix(addr, "https://"); ok {
		addr = strings.TrimSuffix(secure, "/")
		base = "https://" + addr
		if err := trust(transport, os.Getenv(caVariable)); err != nil {
			return nil, err
		}
	} else if err := checkLoopback("http", addr, server.DefaultHTTP); err != nil {
		return nil, err
	}
	return &client{addr: addr, url: base, token: os.Getenv(tokenVariable), http: &http.Client{Transport: transport}}, nil
}

// checkLoopback returns an error unless the address in a flag is on this machine.
func checkLoopback(flag, addr, example string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usagef("--%s: %w", flag, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return usagef("--%s must be the address of a server on this machine, such as %s, not %s", flag, example, addr)
	}
	return nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// send makes a request, with names and values of headers, and returns the answer, whose
// body is the caller's to close. Anything but a success is an error with the server's own
// text.
func (c *client) send(ctx context.Context, method, path, media string, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, noAnswer(c.addr, err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what is there says most
	return nil, refused(resp.StatusCode, text)
}

// noAnswer is the error of a request that was not answered.
func noAnswer(addr string, err error) error {
	return fmt.Errorf("no response from %s: %w; start a server with greenroom serve, or pass its address with --http", addr, err)
}

// refused is the error of an answer that is no success.
func refused(status int, text []byte) error {
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return &answerError{status, problem.Detail}
	}
	return &answerError{status, string(bytes.TrimSpace(text))}
}

// answerError is a refusal of the server.
type answerError struct {
	status int
	detail string
}

// Error has the server's own text.
func (e *answerError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.status, e.detail)
}

// do is send for an answer of JSON, which is decoded into v unless that is nil.
func (c *client) do(ctx context.Context, method, path, media, body string, v any, header ...string) error {
	resp, err := c.send(ctx, method, path, media, bytes.NewReader([]byte(body)), header...)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return decode(resp.Body, v)
}

// decode reads an answer of JSON to its end, so that its connection is used again.
func decode(body io.Reader, v any) error {
	text, err := io.ReadAll(body)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

func (c *client) get(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodGet, path, "", "", v)
}

// entityPath is the path of an entity.
func entityPath(id string) string { return "/v1/entities/" + url.PathEscape(id) }
