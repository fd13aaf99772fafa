package browsertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// TestDashboardOfACluster looks at the page about the nodes, on one that passes on to the owner of the store, while
// the owner leaves.
func TestDashboardOfACluster(t *testing.T) {
	path := requireBrowser(t)
	if os.Getenv("GREENROOM_URL") != "" {
		t.Skip("GREENROOM_URL names a server that is not ours to stop")
	}
	t.Parallel()
	store := pgtest.Database(t)
	var nodes []*process
	for i := range 3 {
		n := newProcess(t)
		httpAddr := n.url[len("http://"):]
		n.args = []string{"serve", "--store", store, "--http", httpAddr, "--mqtt", n.mqtt, "--join", freeAddr(t), "--node", fmt.Sprint("n", i+1)}
		n.start(t) // the first one owns the store
		t.Cleanup(func() { n.stop(t) })
		nodes = append(nodes, n)
	}
	v := &visit{t, startBrowser(t, path), nodes[2].url}
	v.run("the nodes are shown, and who owns the store", func(v *visit) { testCluster(v, nodes[0]) })
}

func testCluster(v *visit, owner *process) {
	const said = `document.querySelector('main')?.textContent`
	p := v.open("/", 1280, 800, "light")
	p.wait("the way to the page", `document.querySelector('nav a[href="#/cluster"]')`)
	evaluate[bool](p, `(location.hash = '#/cluster', true)`)
	p.wait("the nodes", `document.querySelectorAll('.nodes-listed tbody tr').length === 3`)
	p.wait("the owner", `/^Clustern1 has owned the store for \d+ s/.test(`+said+`) && /^n1upvalidowner127/.test(document.querySelector('.nodes-listed tbody tr').textContent)`)
	p.wait("one change of the owner", `document.querySelectorAll('.moves-listed tbody tr').length === 1`)
	p.requireFits()
	p.screenshotWhole("cluster")
	phone := v.open("/#/cluster", 390, 844, "dark")
	phone.wait("the nodes", `document.querySelectorAll('.nodes-listed tbody tr').length === 3`)
	phone.requireFits()
	phone.screenshotWhole("cluster-phone")
	phone.requireQuiet()

	owner.stop(v.t)
	p.wait("another owner", `/^Clustern[23] has owned the store/.test(`+said+`) && document.querySelectorAll('.nodes-listed tbody tr').length === 2`)
	p.wait("who had it before", `/n[23].*n1/.test(document.querySelector('.moves-listed tbody').textContent)`)
}
