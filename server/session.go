package server

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

const (
	// MaxSessions bounds the browser sessions. For a new one, the principal with most sessions
	// loses the one that it has not used for longest. No principal may have more than a quarter of
	// them.
	MaxSessions = 10_000

	// sessionIdle is how long a session lasts without a request.
	sessionIdle = 12 * time.Hour

	maxSessionsOfOne = MaxSessions / 4
)

// sessions holds the browser sessions. Those of people who have logged in are in the store as well, with the
// hash of what is in the cookie, so that they outlive the server: see sessions.open.
type sessions struct {
	cookie string // the cookie's name
	store  access.Store
	log    *slog.Logger

	mu     sync.Mutex
	byHash map[[sha256.Size]byte]*list.Element // guarded by mu; elements of the lists in of
	of     map[*access.Principal]*list.List    // guarded by mu; of *session, most recently used first; none is empty
}

type session struct {
	hash [sha256.Size]byte
	who  *access.Principal
	used time.Time
	stop func() // stops watching who

	kept time.Time // used, as it is in the store; zero if the session is not there
	etag string    // of its document, "" while it is not known
}

// newSessions includes what is particular to the server in the cookie's name, as its port is, because browsers send
// the cookies of a host to all of its ports.
func newSessions(particular string, store access.Store, log *slog.Logger) *sessions {
	return &sessions{cookie: "greenroom_" + particular, store: store, log: log, byHash: make(map[[sha256.Size]byte]*list.Element), of: make(map[*access.Principal]*list.List)}
}

// begin begins a session, and returns the value of its cookie. It waits until the session is in the store, for a
// moment: people must be able to log in while that does not commit.
func (s *sessions) begin(ctx context.Context, who *access.Principal) (text string, ok bool) {
	text = rand.Text() + rand.Text() // 2 × 130 bits
	opened := &session{hash: sha256.Sum256([]byte(text)), who: who, used: time.Now()}
	if !s.add(opened) {
		return "", false
	}
	s.keep(ctx, opened, entity.IfNone)
	s.mu.Lock()
	_, ok = s.byHash[opened.hash]
	s.mu.Unlock()
	if !ok || !who.Valid() { // revoked meanwhile
		s.drop(opened.hash)
		return "", false
	}
	return text, true
}

// add adds a session. It reports false if its principal is not valid.
func (s *sessions) add(opened *session) bool {
	stop, ok := opened.who.Watch(func() { s.drop(opened.hash) })
	if !ok {
		return false
	}
	s.mu.Lock()
	opened.stop = stop
	old := s.makeRoom(opened.who)
	own := s.of[opened.who]
	if own == nil {
		own = list.New()
		s.of[opened.who] = own
	}
	s.byHash[opened.hash] = own.PushFront(opened)
	s.mu.Unlock()
	if old != nil {
		old.stop()
		go s.drop(old.hash)
	}
	return true
}

// makeRoom removes the session that must end for a new one of a principal, and returns it, or nil:
// one of the principal's own if it has its share, and otherwise one of the principal with most. The
// caller holds mu.
func (s *sessions) makeRoom(who *access.Principal) *session {
	if own := s.of[who]; own != nil && own.Len() >= maxSessionsOfOne {
		return s.remove(own.Back())
	}
	if len(s.byHash) < MaxSessions {
		return nil
	}
	var most *list.List
	for _, x := range s.of {
		if most == nil || x.Len() > most.Len() || x.Len() == most.Len() && lastUsed(x).Before(lastUsed(most)) {
			most = x
		}
	}
	return s.remove(most.Back())
}

// lastUsed returns when the least recently used session was used.
func lastUsed(own *list.List) time.Time { return own.Back().Value.(*session).used }

// remove removes a session. The caller holds mu.
func (s *sessions) remove(e *list.Element) *session {
	old := e.Value.(*session)
	own := s.of[old.who]
	own.Remove(e)
	if own.Len() == 0 {
		delete(s.of, old.who)
	}
	delete(s.byHash, old.hash)
	return old
}

// end ends a session, here and in the store.
func (s *sessions) end(ctx context.Context, hash [sha256.Size]byte) error {
	s.mu.Lock()
	e := s.byHash[hash]
	var old *session
	if e != nil {
		old = s.remove(e)
	}
	s.mu.Unlock()
	if old != nil {
		old.stop()
	}
	return s.forget(ctx, hash)
}

// find returns the principal of a request's session, or nil.
func (s *sessions) find(r *http.Request) *access.Principal {
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return nil
	}
	hash := sha256.Sum256([]byte(cookie.Value))
	s.mu.Lock()
	e := s.byHash[hash]
	if e == nil {
		s.mu.Unlock()
		return nil
	}
	found := e.Value.(*session)
	late, keep, etag := time.Since(found.used) > sessionIdle, false, found.etag
	if !late {
		found.used = time.Now()
		s.of[found.who].MoveToFront(e)
		if keep = etag != "" && found.used.Sub(found.kept) > keepEvery; keep {
			found.kept = found.used // whoever comes next need not
		}
	}
	s.mu.Unlock()
	if late || !found.who.Valid() {
		go s.drop(hash)
		return nil
	}
	if keep {
		go s.keep(context.WithoutCancel(r.Context()), found, etag)
	}
	return found.who
}

// len returns the number of sessions.
func (s *sessions) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byHash)
}

// set sets the cookie of a session or, with "", deletes it.
func (s *sessions) set(w http.ResponseWriter, r *http.Request, text string) {
	c := &http.Cookie{Name: s.cookie, Value: text, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: isSecure(r)}
	if text == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// sessionAPI lets browsers log in and out.
type sessionAPI struct {
	gate   *gate
	issuer string // of OpenID Connect, "" for none
}

func (a *sessionAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/session", "getSession", "Read who is logged in, and with which permissions.", a.get, needs(known)),
		rawOp("POST", "/v1/session", "postSession", "Log in with a token, or a name and a password; the session is in a cookie.", a.post,
			answers(http.StatusCreated), sends(content{mediaJSON, callerJSON{}}), needs(public)),
		op("GET", "/v1/session/ways", "getSessionWays", "Read the ways to log in.", a.ways, needs(public)),
		rawOp("DELETE", "/v1/session", "deleteSession", "Log out.", a.remove, answers(http.StatusNoContent), sends(), needs(public)),
	}
}

// callerJSON is the sender of a request.
type callerJSON struct {
	// Empty if nobody has to log in.
	Name string `json:"name" example:"alice"`
	// Clients must log in.
	Guarded bool `json:"guarded" example:"true"`
	// Its permissions on all entities: read, report, write or manage.
	All []string `json:"all" example:"[\"read\"]"`
	// Its permissions on some entities.
	Some []string `json:"some" example:"[\"read\"]"`
}

var actionNames = map[access.Action]string{access.Read: "read", access.Report: "report", access.Write: "write", access.Manage: "manage"}

func (a *sessionAPI) describe(who *access.Principal) callerJSON {
	c := callerJSON{Name: who.Name(), Guarded: a.gate.book.Guarded(), All: []string{}, Some: []string{}}
	for _, action := range []access.Action{access.Read, access.Report, access.Write, access.Manage} {
		name := actionNames[action]
		if who.MayAll(action) {
			c.All = append(c.All, name)
		}
		if who.MaySome(action) {
			c.Some = append(c.Some, name)
		}
	}
	return c
}

func (a *sessionAPI) get(ctx context.Context, _ *struct{}) (*answer[callerJSON], error) {
	return ok(a.describe(callerOf(ctx).who)), nil
}

// waysJSON says how people can log in, besides with a token, or with a name and a
// password.
type waysJSON struct {
	// Where the login with OpenID Connect begins; absent if there is none.
	OIDC string `json:"oidc,omitempty" example:"/login/oidc"`
	// The host of its provider.
	Provider string `json:"provider,omitempty" example:"login.example"`
}

func (a *sessionAPI) ways(context.Context, *struct{}) (*answer[waysJSON], error) {
	u, err := url.Parse(a.issuer)
	if err != nil || a.issuer == "" {
		return ok(waysJSON{}), nil //nolint:nilerr // there is no such way
	}
	return ok(waysJSON{OIDC: oidcPath, Provider: u.Host}), nil
}

type sessionRequest struct{ Body sessionBody }

// sessionBody is what somebody logs in with: a token, or a name and a password.
type sessionBody struct {
	Token    string `json:"token,omitempty" example:"gr_alice_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`
	Name     string `json:"name,omitempty"`
	Password string `json:"password,omitempty"`
}

func (a *sessionAPI) post(w http.ResponseWriter, r *http.Request, in *sessionRequest) error {
	who, err := a.gate.book.Login(r.Context(), &access.Attempt{Token: strings.TrimSpace(in.Body.Token), Name: in.Body.Name, Password: in.Body.Password, Address: addressOf(r)})
	if err != nil {
		return err
	}
	if text, ok := a.gate.sessions.begin(r.Context(), who); ok {
		a.gate.sessions.set(w, r, text)
	}
	return ok(a.describe(who)).withStatus(http.StatusCreated).write(w, r)
}

func (a *sessionAPI) remove(w http.ResponseWriter, r *http.Request, _ *struct{}) error {
	a.gate.sessions.set(w, r, "")
	if cookie, err := r.Cookie(a.gate.sessions.cookie); err == nil {
		if err := a.gate.sessions.end(r.Context(), sha256.Sum256([]byte(cookie.Value))); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
