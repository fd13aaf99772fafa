package server

import (
	_ "embed"
	"net/http"
)

// openapi describes the API for people and generators. It is written by hand; a
// test compares it with the routes.
//
//go:embed openapi.json
var openapi []byte

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	writeBody(w, openapi)
	return nil
}
