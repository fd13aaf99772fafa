package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
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

// maxProblem bounds the part of an error response that is read.
const maxProblem = 64 << 10

// client is a client of a server's HTTP API.
type client struct {
	addr  string
	url   string // of the server, without a path
	token string // "" for none
	http  *http.Client
}

// tokenVariable is the environment variable with the caller's token. A flag would be visible to
// everybody on the machine.
const tokenVariable = "GREENROOM_TOKEN"

// caVariable is the environment variable with the name of a file of CA certificates. If it is not
// set, the system's are used.
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

// newClient returns a client of the server at --http, which is https://host:port, or host:port or
// http://host:port/ of this machine, because that is not encrypted.
func newClient(addr string) (*client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}
	if plain, ok := strings.CutPrefix(addr, "http://"); ok { // the form that the server prints
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

// checkLoopback returns an error unless the address in a flag is a loopback address.
func checkLoopback(flag, addr, example string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usagef("--%s: %w", flag, err)
	}
	if !isLoopback(host) {
		return usagef("--%s must be the address of a server on this machine, such as %s, not %s", flag, example, addr)
	}
	return nil
}

// isLoopback reports whether a host of an address is localhost or a loopback IP.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *client) close() { c.http.CloseIdleConnections() }

// send makes a request and returns the response, whose body the caller must close. header contains
// names and values of headers. If the request fails, the error contains the server's text.
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
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // even a part of it helps
	return nil, refused(resp.StatusCode, text)
}

// noAnswer returns the error of a request without a response, with what to do about it.
func noAnswer(addr string, err error) error {
	hint := "start a server with greenroom serve, or pass its address with --http"
	var name x509.HostnameError
	switch _, unknown := errors.AsType[x509.UnknownAuthorityError](err); {
	case unknown:
		hint = "let " + caVariable + " name a PEM file with the CA of its certificate"
	case errors.As(err, &name):
		hint = "pass a name of its certificate with --http"
	case strings.Contains(err.Error(), "gave HTTP response to HTTPS client"):
		hint = "it is not encrypted: pass its address without https://"
	}
	return fmt.Errorf("no response from %s: %w; %s", addr, err, hint)
}

// refused returns the error of an unsuccessful response.
func refused(status int, text []byte) error {
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return &answerError{status, problem.Detail}
	}
	return &answerError{status, string(bytes.TrimSpace(text))}
}

// answerError is an unsuccessful response.
type answerError struct {
	status int
	detail string
}

// Error returns a text that contains the server's own.
func (e *answerError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.status, e.detail)
}

// do is like send, and decodes a JSON response into v unless that is nil.
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

// decode decodes a JSON response, and reads it to its end, so that the connection can be reused.
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

// entityPath returns the path of an entity.
func entityPath(id string) string { return "/v1/entities/" + url.PathEscape(id) }
