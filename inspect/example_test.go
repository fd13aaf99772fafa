package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/inspect"
)

func ExampleHandler() { //nolint:testableexamples // it listens
	sys := actor.NewSystem("shop")
	mux := http.NewServeMux()
	mux.Handle("/debug/actors/", http.StripPrefix("/debug/actors", inspect.Handler(sys, inspect.Config{
		Authorize: func(r *http.Request, order inspect.Order, pid actor.PID) error {
			if user, _, _ := r.BasicAuth(); user != "admin" { // behind the program's own login
				return errors.New("only the admin may " + string(order) + " actors")
			}
			return nil
		},
	})))
	server := &http.Server{Addr: "127.0.0.1:8081", Handler: mux}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	defer server.Close()
}

func ExampleReadTree() {
	sys := actor.NewSystem("shop")
	defer sys.Shutdown(context.Background())
	actor.SpawnFunc(sys, "orders", func(*actor.Context[string], string) error { return nil })
	tree, err := inspect.ReadTree(sys, "/", 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, child := range tree.Children {
		fmt.Println(child.Path, child.State, child.Mailbox)
	}
	// Output: /orders running 0
}
