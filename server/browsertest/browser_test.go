package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The tests are steered by the environment:
//
//	GREENROOM_URL              test the server at this address instead of starting one
//	GREENROOM_BROWSER          the browser to use, a path or a name on the PATH
//	GREENROOM_REQUIRE_BROWSER  "1": a missing browser fails the tests instead of skipping them
//	GREENROOM_SCREENSHOTS      the folder for screenshots; without it they are test artifacts

// TestDashboard looks at the pages of a server that runs its demo and has nothing else.
func TestDashboard(t *testing.T) {
	v, _ := newVisit(t)
	v.run("entities are live and drawn", testEntities)
	v.run("search keeps its state in the address", testSearch)
	v.run("an entity has values and history", testEntity)
	v.run("actors are shown live", testActors)
	v.run("one actor is shown closely", testActor)
}

// TestDashboardOfAChangingServer looks at the pages of one to which more is added, and
// which is stopped in the end.
func TestDashboardOfAChangingServer(t *testing.T) {
	v, server := newVisit(t)
	v.run("a phone in the dark fits an actor", testPhoneActor)
	v.run("a phone in the dark fits every page", testPhone)
	v.run("what was refused is told with the reason", testRefusals)
	v.run("a first reading makes an entity appear", testFirstReading)
	v.run("types, mappings and the state of an entity are shown", testModel)
	v.run("commands are sent, followed and canceled", testCommands)
	v.run("a template is made of a message that was refused", func(v *visit) {
		if server == nil {
			v.t.Skip("GREENROOM_URL names a server whose MQTT address is not known")
		}
		testTemplates(v, server.mqtt)
	})
	v.run("a script is written, tried, saved and rolled back", testScripts)
	v.run("a device is connected where nobody has to log in", testConnectOpen)
	v.run("who is online is shown as it changes", testPresence)
	v.run("alarms are raised, acknowledged and shelved", testAlarms)
	v.run("a filter is completed, applied and saved", testQueries)
	v.run("a lost server is told and found again", func(v *visit) {
		if server == nil {
			v.t.Skip("GREENROOM_URL names a server that is not ours to stop")
		}
		testReconnect(v, server)
	})
}

// newVisit starts a browser and a server, which is nil if GREENROOM_URL names another.
// The test runs beside others then: it waits more than it works.
func newVisit(t *testing.T) (*visit, *process) {
	t.Helper()
	path := requireBrowser(t)
	if url := strings.TrimSuffix(os.Getenv("GREENROOM_URL"), "/"); url != "" {
		return &visit{t, startBrowser(t, path), url}, nil
	}
	t.Parallel()
	server := newProcess(t)
	server.start(t)
	t.Cleanup(func() { server.stop(t) })
	return &visit{t, startBrowser(t, path), server.url}, server
}

// requireBrowser returns the path of a browser, or skips the test, or fails it.
func requireBrowser(t *testing.T) string {
	t.Helper()
	path, missing := findBrowser()
	if missing != "" {
		if os.Getenv("GREENROOM_REQUIRE_BROWSER") == "1" {
			t.Fatalf("the dashboard cannot be tested: %s", missing)
		}
		t.Skipf("SKIPPED, THE DASHBOARD IS NOT TESTED: %s", missing)
	}
	return path
}

// run makes a subtest of a visit.
func (v *visit) run(name string, f func(*visit)) {
	v.t.Run(name, func(t *testing.T) { f(&visit{t, v.browser, v.url}) })
}

const (
	// values is all that the table says at this moment.
	values = `[...document.querySelectorAll('.entities tbody .value')].map((v) => v.textContent).join('|')`
	// drawnPixels counts, for the first chart of the page, the pixels in the color of its line: enough
	// to tell a line from an axis.
	drawnPixels = `(() => {
		const canvas = document.querySelector('.chart canvas');
		const color = getComputedStyle(document.documentElement).getPropertyValue('--series-1').trim();
		const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
		const copy = document.createElement('canvas');
		[copy.width, copy.height] = [canvas.width, canvas.height];
		const context = copy.getContext('2d', { willReadFrequently: true });
		context.drawImage(canvas, 0, 0);
		const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4) {
			if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 24 && data[i + 3] > 200) n++;
		}
		return n;
	})()`
	// picture is the first chart as text, to be compared with itself later.
	picture = `document.querySelector('.chart canvas').toDataURL()`
)

// remember keeps the value of an expression in the page, for changed.
func remember(p *page, name, expression string) {
	p.t.Helper()
	evaluate[bool](p, fmt.Sprintf("(window.remembered ??= {}, window.remembered[%q] = %s, true)", name, expression))
}

func changed(name, expression string) string {
	return fmt.Sprintf("window.remembered[%q] !== %s", name, expression)
}

func testEntities(v *visit) {
	p := v.open("/", 1280, 800, "light")
	p.wait("rows with values", `document.querySelectorAll('.entities tbody tr .value').length > 0`)
	p.wait("a connection", `document.querySelector('.connection.live')`)
	p.wait("a line in the chart", drawnPixels+" > 100")
	p.wait("the rate of readings", `[...document.querySelectorAll('.tile')].some((tile) => /Readings/.test(tile.textContent) && parseFloat(tile.querySelector('.tile-value').textContent) > 0)`)
	p.wait("a fresh reading", `document.querySelector('.entities .age.fresh')`)

	// The table is fetched once; only the stream can change it after that.
	remember(p, "values", values)
	p.wait("the stream to change a value", changed("values", values))
	remember(p, "picture", picture)
	p.wait("the chart to move", changed("picture", picture))

	first := `document.querySelector('.entities tbody tr:not([aria-selected=true])')`
	if evaluate[bool](p, first+" !== null") {
		evaluate[bool](p, "(window.wanted = "+first+".querySelector('th').textContent, "+first+".querySelector('button').click(), true)")
		p.wait("the chart of the selected entity", `document.querySelector('.panel h2').textContent === window.wanted`)
		p.wait("the selection in the address", `location.hash.includes('selected=' + encodeURIComponent(window.wanted))`)
		evaluate[bool](p, `(location.hash = '#/', true)`)
		p.wait("the first selection again", `document.querySelector('.panel h2').textContent !== window.wanted`)
	}
	p.wait("a line in its chart", drawnPixels+" > 100")
	if os.Getenv("GREENROOM_SCREENSHOTS") != "" {
		// A picture for the README deserves a line that has been somewhere.
		p.waitFor(3*time.Minute, "forty readings in the chart", `parseInt(document.querySelector('.lane-mode').textContent.match(/\d+/)?.[0] ?? '0') >= 40`)
	}
	p.screenshot("dashboard")
	p.requireFits()
	p.requireQuiet()

	evaluate[bool](p, `(document.querySelector('button.theme').click(), true)`)
	p.wait("the dark theme", `document.documentElement.dataset.theme === 'dark'`)
	p.wait("a chart in dark colors", drawnPixels+" > 100")
	p.screenshot("dashboard-dark")
	evaluate[bool](p, `(document.querySelector('button.theme').click(), true)`)
	p.wait("the system's theme", `!document.documentElement.dataset.theme`)
	p.requireQuiet()
}

func testSearch(v *visit) {
	p := v.open("/", 1280, 800, "light")
	p.wait("rows", `document.querySelectorAll('.entities tbody tr').length > 0`)
	evaluate[bool](p, `(window.wanted = document.querySelector('.entities tbody th').textContent.trim(), true)`)
	p.do("type a search", typeInto(`input[type=search]`, evaluate[string](p, `window.wanted.toUpperCase()`)))
	p.wait("only matches", `[...document.querySelectorAll('.entities tbody th')].every((th) => th.textContent.toLowerCase().includes(window.wanted.toLowerCase())) && location.hash.includes('search=')`)
	hash := evaluate[string](p, `location.hash`)
	p.requireQuiet()

	linked := v.open("/"+hash, 1280, 800, "light")
	linked.wait("the search of the address in the box", `document.querySelector('input[type=search]').value !== ''`)
	linked.wait("its result", `document.querySelectorAll('.entities tbody tr').length > 0`)

	nothing := v.open("/#/?search=no-entity-has-this-id", 1280, 800, "light")
	nothing.wait("a sentence for an empty result", `document.querySelector('.nothing')?.textContent.includes('no-entity-has-this-id')`)
	nothing.requireQuiet()
}

// testFirstReading watches the page of an entity that does not exist come to
// life, with an integer that a JavaScript number cannot hold.
func testFirstReading(v *visit) {
	id := fmt.Sprintf("browser test %d", time.Now().UnixNano())
	escaped := strings.ReplaceAll(id, " ", "%20")
	p := v.open("/#/e/"+escaped, 1280, 800, "light")
	p.setOffline(true) // the browser itself reports the 404 that is tested here
	p.wait("the news that there is no such entity", `document.querySelector('.problem')?.textContent.includes('no entity')`)
	p.wait("a connection", `document.querySelector('.connection.live')`)

	post(v.t, v.url+"/v1/entities/"+escaped+"/telemetry", `{"serial":9007199254740993,"mode":"eco","config":{"limits":[1,2]},"open":true,"level":4.5}`)
	p.wait("the integer with all its digits", `document.querySelector('.keys')?.textContent.includes('9,007,199,254,740,993')`)
	p.wait("the text", `[...document.querySelectorAll('.keys .value.string')].some((v) => v.textContent === 'eco')`)
	p.wait("the switch", `document.querySelector('.keys .switch.on')`)
	p.wait("the JSON value", `document.querySelector('.keys details.json')?.textContent.includes('"limits"')`)
	p.wait("no complaint any more", `!document.querySelector('.problem')`)
	p.requireQuiet()
}

func post(t *testing.T, url, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("POST %s: %v", url, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Fatalf("POST %s: answered %s, want 204", url, res.Status)
	}
}

func testEntity(v *visit) {
	p := v.open("/", 1280, 800, "light")
	p.wait("the panel of an entity", `document.querySelector('.panel h2 a')`)
	evaluate[bool](p, `(document.querySelector('.panel h2 a').click(), true)`)
	p.wait("the page of the entity", `location.hash.startsWith('#/e/') && document.querySelector('main h1')`)
	p.wait("values with their age", `document.querySelector('.keys tbody .age.fresh')`)
	p.wait("a line", drawnPixels+" > 50")
	p.wait("the label of what is drawn", `/^(raw|avg)/.test(document.querySelector('.lane-mode').textContent)`)

	remember(p, "keys", `document.querySelector('.keys tbody').textContent`)
	p.wait("the stream to change a value", changed("keys", `document.querySelector('.keys tbody').textContent`))
	remember(p, "picture", picture)
	p.wait("the chart to move", changed("picture", picture))
	p.screenshot("entity")

	for _, name := range []string{"1 h", "7 d", "All"} {
		evaluate[bool](p, fmt.Sprintf(`([...document.querySelectorAll('.segments button')].find((b) => b.textContent === %q).click(), true)`, name))
		p.wait("the range "+name, fmt.Sprintf(`document.querySelector('.segments [aria-pressed=true]').textContent === %q && location.hash.includes('range=') && document.querySelector('.lanes[aria-busy=false]')`, name))
		p.wait("a line for "+name, drawnPixels+" > 5")
	}
	const choose = `((value) => { const select = document.querySelector('.agg-choice select'); select.value = value; select.dispatchEvent(new Event('change')); return true; })`
	evaluate[bool](p, choose+`('p95')`)
	p.wait("the aggregate that was chosen", `location.hash.includes('agg=p95') && /^p95 per /.test(document.querySelector('.lane-mode').textContent) && document.querySelector('.lanes[aria-busy=false]')`)
	p.wait("its line", drawnPixels+" > 5")
	evaluate[bool](p, choose+`('')`)
	p.wait("the readings again", `/^(raw|avg)/.test(document.querySelector('.lane-mode').textContent)`)
	drawn := evaluate[int](p, `document.querySelectorAll('.lane').length`)
	evaluate[bool](p, `(document.querySelector('.keys input:checked').click(), true)`)
	p.wait("one chart less", fmt.Sprintf(`document.querySelectorAll('.lane').length === %d`, drawn-1))
	p.requireFits()
	p.requireQuiet()
}

func testActors(v *visit) {
	p := v.open("/#/actors", 1280, 800, "light")
	p.wait("actors", `document.querySelectorAll('.actors tbody tr').length > 1`)
	p.wait("the root, open", `document.querySelector('.actors tbody tr[aria-level="1"][aria-expanded=true]')`)
	p.wait("a rate of an actor", `[...document.querySelectorAll('.actors tbody td:nth-child(5)')].some((td) => parseFloat(td.textContent) > 0)`)
	p.wait("the number of messages", `[...document.querySelectorAll('.tile')].some((tile) => /Messages/.test(tile.textContent) && parseFloat(tile.querySelector('.tile-value').textContent) > 0)`)
	p.wait("the dead letters", `document.querySelector('.dead-letters')`)
	p.wait("a chart of the rates", drawnPixels+" > 10")
	remember(p, "picture", picture)
	p.wait("the chart to move", changed("picture", picture))
	p.wait("whether they are busy", `[...document.querySelectorAll('.actors .state')].some((cell) => cell.textContent === 'idle')`)
	p.screenshot("actors")
	time := v.open("/inspect/profile", 1280, 800, "light")
	time.wait("where the time goes, as package inspect shows it", `/^Where the time goes/.test(document.querySelector('h1')?.textContent)`)
	time.requireFits()
	time.screenshot("actors-time")
	time.requireQuiet()
	tree := v.open("/inspect/", 390, 844, "dark")
	tree.wait("the table", `document.querySelector('.scroll').scrollWidth > 450`)
	evaluate[bool](tree, `(window.before = document.getElementById('actors'), document.querySelector('.scroll').scrollLeft = 40, true)`)
	tree.wait("the tree to follow, scrolled as it was", `document.getElementById('actors') !== window.before && document.querySelector('.scroll').scrollLeft === 40`)
	tree.requireFits()
	tree.screenshot("actors-inspect")
	tree.requireQuiet()
	p.wait("the way there", `document.querySelector('.links a[href="inspect/profile"]')`)

	rows := evaluate[int](p, `document.querySelectorAll('.actors tbody tr').length`)
	evaluate[bool](p, `(document.querySelector('.actors tbody tr').focus(), true)`)
	p.do("close the root by the keyboard", key("ArrowLeft"))
	p.wait("the closed tree", `document.querySelectorAll('.actors tbody tr').length === 1`)
	p.do("open the root by the keyboard", key("ArrowRight"))
	p.wait("the open tree", fmt.Sprintf(`document.querySelectorAll('.actors tbody tr').length >= %d`, min(rows, 2)))

	evaluate[bool](p, `(window.wanted = [...document.querySelectorAll('.actors .actor-name')].at(-1).textContent, true)`)
	p.do("search an actor", typeInto(`input[type=search]`, evaluate[string](p, `window.wanted`)))
	p.wait("the found actor and the way to it", `location.hash.includes('search=') && [...document.querySelectorAll('.actors tr:not(.on-the-way) .actor-name')].some((name) => name.textContent === window.wanted)`)
	p.requireFits()
	p.requireQuiet()
}

func testRefusals(v *visit) {
	resp, err := http.Post(v.url+"/v1/entities/clumsy/telemetry", "application/json", strings.NewReader("temperature=21"))
	if err != nil {
		v.t.Fatal(err)
	}
	_ = resp.Body.Close()
	const shown = `/temperature|where an object is expected/.test(document.querySelector('.refused .refusal-detail')?.textContent ?? '')`
	p := v.open("/#/actors", 1280, 800, "light")
	p.wait("the reason among all", shown)
	p.requireFits()
	p.screenshotWhole("refusals")
	p.requireQuiet()
	// Its page says why there is nothing. That it is not there is an error to the browser.
	of := v.open("/#/e/clumsy", 1280, 800, "dark")
	of.wait("the reason on the page of the entity", shown)
	of.requireFits()
	of.screenshot("refusals-entity")
}

func testPhone(v *visit) {
	p := v.open("/", 390, 844, "dark")
	p.wait("rows", `document.querySelectorAll('.entities tbody tr .value').length > 0`)
	p.wait("a line in the chart", drawnPixels+" > 50")
	if ground := evaluate[string](p, `getComputedStyle(document.documentElement).backgroundColor`); !isDark(ground) {
		v.t.Errorf("the ground is %s in the dark", ground)
	}
	p.requireFits()
	p.screenshot("phone-entities")

	evaluate[bool](p, `(location.hash = document.querySelector('.panel h2 a').getAttribute('href'), true)`)
	p.wait("the page of an entity", `document.querySelector('.keys tbody tr')`)
	p.wait("a line", drawnPixels+" > 20")
	p.requireFits()
	p.screenshot("phone-entity")

	evaluate[bool](p, `(location.hash = '#/actors', true)`)
	p.wait("actors", `document.querySelectorAll('.actors tbody tr').length > 1`)
	p.wait("a chart of the rates", drawnPixels+" > 5")
	p.requireFits()
	p.screenshot("phone-actors")
	p.requireQuiet()
}

// isDark reads a color as the browser computes it, "rgb(13, 19, 16)".
func isDark(color string) bool {
	var r, g, b int
	_, err := fmt.Sscanf(color, "rgb(%d, %d, %d)", &r, &g, &b)
	return err == nil && r+g+b < 3*64
}

func testReconnect(v *visit, server *process) {
	p := v.open("/", 1280, 800, "light")
	p.wait("a live connection", `document.querySelector('.connection.live') && document.querySelectorAll('.entities tbody tr').length > 0`)
	p.setOffline(true)
	server.stop(v.t)
	p.wait("the banner", `document.querySelector('.banner.shown')?.textContent.includes('Connection lost') && getComputedStyle(document.querySelector('.banner')).opacity === '1'`)
	p.screenshot("disconnected")
	server.start(v.t)
	p.wait("the end of the banner", `!document.querySelector('.banner.shown') && document.querySelector('.connection.live')`)
	remember(p, "values", values)
	p.wait("the stream to change a value again", changed("values", values))
	p.wait("a line in the chart", drawnPixels+" > 100")
	p.requireQuiet()
}
