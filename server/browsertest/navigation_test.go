package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestWaitGoesOnAcrossNavigation waits in a document that the tab leaves meanwhile,
// as after a click on a link.
func TestWaitGoesOnAcrossNavigation(t *testing.T) {
	path := requireBrowser(t)
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/first", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><script>
			window.go = () => setTimeout(() => { location.href = '/second'; }, 200);
		</script><h1>First</h1>`)
	})
	mux.HandleFunc("/second", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><h1>Second</h1>`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	p := startBrowser(t, path).open(t, server.URL+"/first", 800, 600, "light")
	for range 3 {
		evaluate[bool](p, `(window.go(), true)`)
		p.wait("the second page", `location.pathname === '/second' && document.querySelector('h1').textContent === 'Second'`)
		evaluate[bool](p, `(location.href = '/first', true)`)
		p.wait("the first page", `location.pathname === '/first' && window.go`)
	}
	p.requireQuiet()
}
