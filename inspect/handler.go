package inspect

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/text"
)

// Config configures a Handler. The zero value only lets people read.
type Config struct {
	// Authorize decides whether a request may give an order to an actor. If it returns an error,
	// the request is answered with status 403 and the error's text. A nil Authorize refuses all
	// orders, and the pages then have no buttons for them. It may be called concurrently.
	Authorize func(r *http.Request, order Order, pid actor.PID) error
	// Hosts are the names by which a listener on a loopback address may be reached, for example
	// through a proxy, besides localhost and IP addresses. Requests for other hosts are refused: a
	// page elsewhere could otherwise point its own name to the loopback address, and read what the
	// listener shows.
	Hosts []string
}

// Order is an order that a person may give to an actor.
type Order string

const (
	// Stop ends the actor after its current message, as [actor.Ref.Stop] does.
	Stop Order = "stop"
	// Drain ends the actor after the messages in its mailbox, as [actor.Ref.Drain] does.
	Drain Order = "drain"
	// Restart gives the actor a fresh state after its current message, as [actor.System.Restart]
	// does.
	Restart Order = "restart"
	// Kill ends the actor at once, and abandons a handler that does not return, as [actor.Ref.Kill]
	// does.
	Kill Order = "kill"
)

const (
	childrenShown = 200
	// maxPID bounds the address in a request, and in the error about one, in bytes.
	maxPID = 4096
)

// inspector serves the pages of one system.
type inspector struct {
	sys      *actor.System
	cfg      Config
	failures *failureLog
}

// page is one of the pages: what it reads, and the template of the same name that shows it.
type page struct {
	name, title string
	read        func(*inspector, *http.Request) (any, error)
}

// pages are in the order of the menu. The first one is at the root; one without a title is not in it.
var pages = []page{
	{"tree", "Actors", (*inspector).tree},
	{"top", "Top", (*inspector).top},
	{"profile", "Time", (*inspector).profile},
	{"waits", "Waiting", (*inspector).waits},
	{"failures", "Failures", (*inspector).recentFailures},
	{"dead-letters", "Dead letters", (*inspector).deadLetters},
	{"nodes", "Nodes", (*inspector).nodes},
	{"actor", "", (*inspector).actor},
	{"record", "", (*inspector).record},
}

// Handler serves the pages about the actors of sys. Each is JSON for a request that accepts
// application/json and not text/html. The paths are relative: mount it with
// [http.StripPrefix] under a prefix that ends with a slash.
//
// It also keeps the last 256 failures, in an actor of its own that lives as long as sys. Reading
// costs the actors no more than a look at each one shown; Top and Waiting look at all of them, at
// most 200 000. Time takes a profile ([actor.System.Profile]), and the page of an actor leads to a
// recording of what it handles ([actor.System.Record]), without the contents of the messages. Both
// take two seconds, or up to 30 as the parameter "for" says.
//
// Orders are POST requests. They are refused if they come from another site's page
// ([http.CrossOriginProtection]).
func Handler(sys *actor.System, cfg Config) http.Handler {
	in := &inspector{sys: sys, cfg: cfg, failures: newFailureLog(sys)}
	mux := http.NewServeMux()
	for i, p := range pages {
		path := "GET /" + p.name
		if i == 0 {
			path = "GET /{$}"
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { in.show(w, r, p) })
	}
	for order, act := range map[Order]func(actor.PID) error{Stop: sys.Stop, Drain: sys.Drain, Restart: sys.Restart, Kill: sys.Kill} {
		mux.HandleFunc("POST /"+string(order), func(w http.ResponseWriter, r *http.Request) { in.give(w, r, order, act) })
	}
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !in.knows(r) {
			http.Error(w, fmt.Sprintf("the host must be localhost, an IP address or one of Config.Hosts, not %q", text.Shorten(r.Host, maxPID)), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// knows reports whether a request to a loopback address is for a host that may be served there.
func (in *inspector) knows(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil || slices.Contains(in.cfg.Hosts, host)
}

// refusal is an error that is answered with a status of its own.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refusef(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

//go:embed assets
var assets embed.FS

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"ago": func(ms int64) string {
		return shortDuration(time.Since(time.UnixMilli(ms)).Round(time.Millisecond)) + " ago"
	},
	"clock": func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000Z") },
	"ms":    func(ms int64) string { return shortDuration(time.Duration(ms) * time.Millisecond) },
	"msf":   func(ms float64) string { return shortDuration(time.Duration(ms * float64(time.Millisecond))) },
	"view":  indented,
	// How long a recording may take, to choose from.
	"seconds": func() []int { return []int{2, 10, 30} },
	// An actor without a name has a $ there, and no path to ask for.
	"named": func(path string) bool { return !strings.Contains(path, "/$") },
}).ParseFS(templateFiles, "templates/*.html"))

// shown is what a template is given.
type shown struct {
	// What the page is about, and its title in the menu.
	About, Title string
	System       string
	Pages        []page
	Stats        actor.Stats
	Data         any
}

// about is implemented by what pages show about one actor.
type about interface{ actorPath() string }

// Name is the address of the page, for templates.
func (p page) Name() string {
	if p.name == pages[0].name {
		return "./"
	}
	return p.name
}

// Title is the text of its link, for templates.
func (p page) Title() string { return p.title }

func (in *inspector) show(w http.ResponseWriter, r *http.Request, p page) {
	w.Header().Set("Cache-Control", "no-store")
	data, err := p.read(in, r)
	if err != nil {
		in.fail(w, r, err)
		return
	}
	accept := r.Header.Get("Accept")
	w.Header().Add("Vary", "Accept")
	if strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html") {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(data) // the client may have left
		return
	}
	title := p.title
	if a, ok := data.(about); ok && a.actorPath() != "/" {
		title = a.actorPath()
	}
	in.write(w, http.StatusOK, p.name, shown{About: title, Title: p.title, Data: data})
}

// write sends a page that the template of that name makes.
func (in *inspector) write(w http.ResponseWriter, status int, name string, all shown) {
	all.System, all.Pages, all.Stats = in.sys.Name(), pages, in.sys.Stats()
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name+".html", all); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

// fail answers with an error: a browser gets it as a page with the menu.
func (in *inspector) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if refused, ok := errors.AsType[*refusal](err); ok {
		status = refused.status
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		in.write(w, status, "error", shown{About: http.StatusText(status), Data: err.Error()})
		return
	}
	http.Error(w, err.Error(), status)
}

// treePage is one actor with its first children.
type treePage struct {
	*ActorTree
	// The path of its parent; empty for the root.
	Up string `json:"-"`
}

func (p treePage) actorPath() string { return p.ActorTree.Actor.Path }

func (in *inspector) tree(r *http.Request) (any, error) {
	path := r.URL.Query().Get("path")
	if path == "" {
		path = "/"
	}
	tree, err := ReadTree(in.sys, path, childrenShown)
	if err != nil {
		return nil, refusef(http.StatusNotFound, "no actor has the path %q; a path begins with / as in /orders, and / itself is the root", text.Shorten(path, maxPID))
	}
	up := ""
	if at := strings.LastIndexByte(path, '/'); at > 0 {
		up = path[:at]
	} else if path != "/" {
		up = "/"
	}
	return treePage{tree, up}, nil
}

// actorPage is one actor in detail, with the orders that may be given to it.
type actorPage struct {
	*ActorDetail
	Orders []Order `json:"-"`
}

func (p actorPage) actorPath() string { return p.ActorDetail.Actor.Path }

func (in *inspector) actor(r *http.Request) (any, error) {
	pid, err := parsePID(r.URL.Query().Get("pid"))
	if err != nil {
		return nil, err
	}
	d, err := ReadDetail(r.Context(), in.sys, pid)
	if errors.Is(err, actor.ErrStopped) {
		return nil, refusef(http.StatusNotFound, "no living actor has the PID %q; a stopped actor never comes back under its PID", pid)
	}
	if err != nil {
		return nil, err
	}
	p := actorPage{ActorDetail: d}
	if in.cfg.Authorize != nil && !d.Parent.IsZero() {
		p.Orders = []Order{Stop, Drain, Restart, Kill}
	}
	return p, nil
}

// parsePID returns the address that a request names.
func parsePID(given string) (actor.PID, error) {
	if len(given) > maxPID {
		return actor.PID{}, refusef(http.StatusBadRequest, "pid must have at most %d bytes, not %d", maxPID, len(given))
	}
	pid, err := actor.ParsePID(given)
	if err != nil || pid.IsZero() {
		return actor.PID{}, refusef(http.StatusBadRequest, "pid must be the address of an actor as the pages show it, not %q", given)
	}
	return pid, nil
}

// give gives an actor an order and shows the tree, since there is no page of an actor that has ended,
// or the page of an actor that has been restarted.
func (in *inspector) give(w http.ResponseWriter, r *http.Request, order Order, act func(actor.PID) error) {
	r.Body = http.MaxBytesReader(w, r.Body, 4*maxPID)
	pid, err := parsePID(r.PostFormValue("pid"))
	if err != nil {
		in.fail(w, r, err)
		return
	}
	if pid.Path() == "/" {
		in.fail(w, r, refusef(http.StatusBadRequest, "%s %s: the root takes no orders; it ends with the system", order, pid))
		return
	}
	if in.cfg.Authorize == nil {
		in.fail(w, r, refusef(http.StatusForbidden, "orders to actors are refused: Config.Authorize is nil"))
		return
	}
	if err := in.cfg.Authorize(r, order, pid); err != nil {
		in.fail(w, r, refusef(http.StatusForbidden, "%s %s: %v", order, pid, err))
		return
	}
	if err := act(pid); err != nil {
		in.fail(w, r, refusef(http.StatusNotFound, "%v", err))
		return
	}
	in.sys.Log().Info("an order was given to an actor",
		slog.String("order", string(order)), slog.String("pid", pid.String()), slog.String("remote", r.RemoteAddr))
	next := "./"
	if order == Restart {
		next = "actor?pid=" + url.QueryEscape(pid.String())
	}
	w.Header().Set("Location", next) // http.Redirect would make it absolute, without the prefix
	w.WriteHeader(http.StatusSeeOther)
}

func (in *inspector) deadLetters(*http.Request) (any, error) { return DeadLetters(in.sys), nil }

func indented(view json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, view, "", "  ") != nil {
		return string(view)
	}
	return out.String()
}

// shortDuration has about three digits.
func shortDuration(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(10 * time.Nanosecond).String()
}
