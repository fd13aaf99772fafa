package server

import (
	"net"
	"net/http"
)

// guard protects the API from other sites in the browser of somebody who can reach the server. If
// nobody has to log in there are no credentials to steal, but a page anywhere can make a browser
// send requests to 127.0.0.1:
//
//   - With DNS rebinding, the page's own name resolves to 127.0.0.1, and the browser lets the page read the responses. Such requests have that name as Host; only the server's own names are served.
//   - A simple cross-origin POST is sent without a preflight. Browsers mark it, and marked requests are refused.
func guard(next http.Handler, isOwn func(host string) bool) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, problemf(http.StatusForbidden, "a page of another origin made the browser send this; only pages of this server and programs may"))
	}))
	next = crossOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !isOwn(hostOf(r)) {
			writeProblem(w, r, errOtherHost(r))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns the host that a request addresses, without the port.
func hostOf(r *http.Request) string {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil { // there is no port
		return r.Host
	}
	return name
}

// errOtherHost says that a request addresses another server.
func errOtherHost(r *http.Request) *problem {
	return problemf(http.StatusForbidden, "the host %q is none of the names of this server; address it by its certificate's, on this machine as localhost or 127.0.0.1, or start it with --hosts", shorten(r.Host, 256))
}
