package main

import (
	_ "embed"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/coder/websocket"

	"github.com/greenroom-go/greenroom/actor"
)

//go:embed page.html
var page []byte

// names are those of players: they are keys of actors, and shown to others.
var names = regexp.MustCompile(`^[a-z0-9-]{1,20}$`)

// handler serves the page, and the WebSockets of those who play.
func (g *game) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /play", g.play)
	return mux
}

// play is a connection: an actor that has the player, and this goroutine, which reads.
func (g *game) play(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if !names.MatchString(name) {
		http.Error(w, "the name must have 1 to 20 small letters, digits and hyphens", http.StatusBadRequest)
		return
	}
	conn, err := websocket.Accept(w, r, nil) // only from pages of this server
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.CloseNow() }()
	ctx := r.Context()
	screens := make(chan Screen, 1)
	s, err := actor.TrySpawn(g.sys, "session-*", func() *session {
		return &session{game: g, player: name, show: func(s Screen) {
			select {
			case screens <- s:
			default: // a slow reader misses some
			}
		}}
	})
	if err != nil {
		g.sys.Log().Warn("no session", slog.Any("error", err))
		return
	}
	defer s.Stop()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			_, data, err := conn.Read(ctx)
			var m struct{ DX, DY int }
			if err != nil || json.Unmarshal(data, &m) != nil {
				return
			}
			s.Tell(ctx, step{m.DX, m.DY})
		}
	}()
	for {
		select {
		case screen := <-screens:
			data, err := json.Marshal(screen)
			if err == nil {
				err = conn.Write(ctx, websocket.MessageText, data)
			}
			if err != nil {
				return
			}
		case <-read:
			return
		}
	}
}
