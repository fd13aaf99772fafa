package server

import (
	"net/http"

	"github.com/greenroom-go/greenroom/inspect"
)

// pagesPath is where the pages of package inspect are.
const pagesPath = "/inspect"

// pagesRequest has the parameters of all pages.
type pagesRequest struct {
	By   string `query:"by"`
	For  string `query:"for"`
	Path string `query:"path"`
	PID  string `query:"pid"`
}

// pages serves the pages of package inspect about the server's own actors. They only show: the
// console changes a running system.
func (s *Server) pages() http.Handler {
	handler := http.StripPrefix(pagesPath, inspect.Handler(s.system, inspect.Config{}))
	o := rawOp(http.MethodGet, pagesPath+"/", "inspectPages", "Read a page about the actors.", func(w http.ResponseWriter, r *http.Request, _ *pagesRequest) error {
		r = r.Clone(r.Context())
		r.Host = "localhost" // guard has checked the name, and knows more names than the pages
		handler.ServeHTTP(w, r)
		return nil
	}, needs(seesAll), takesLong)
	return s.serve(&o)
}
