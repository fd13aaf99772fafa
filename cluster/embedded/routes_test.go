package embedded_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster/embedded"
	"github.com/greenroom-go/greenroom/internal/keyed"
)

// TestServersFindEachOther without an address for clients, with and without TLS, in a time that has an end.
func TestServersFindEachOther(t *testing.T) {
	t.Parallel()
	encrypted, err := keyed.TLS(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{"in the clear": nil, "with TLS": encrypted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := meshed(t, config)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, s := range servers {
				nc, err := s.Connect(ctx)
				if err != nil {
					t.Fatal(err)
				}
				nc.Close()
			}
		})
	}
}

// meshed starts three servers without an address for clients. Others may take their ports meanwhile, and then there are new
// ones.
func meshed(t *testing.T, config *tls.Config) (servers []*embedded.Server) {
	t.Helper()
	for len(servers) < 3 {
		for _, s := range servers {
			s.Close()
		}
		servers = nil
		routes, err := ports(3)
		if err != nil {
			t.Fatal(err)
		}
		for i, addr := range routes {
			s, err := embedded.Start(embedded.Config{
				Name: fmt.Sprint("s", i+1), Dir: t.TempDir(), RouteAddr: addr, Routes: routes, RouteTLS: config,
				Secret: secret, Unsynced: true, Log: quiet,
			})
			if err != nil && strings.Contains(err.Error(), "in use") {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			servers = append(servers, s)
		}
	}
	return servers
}
