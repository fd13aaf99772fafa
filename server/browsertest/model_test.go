package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// put sends a document, whether it replaces one or not.
func put(t *testing.T, url, contentType, body string) {
	t.Helper()
	for _, condition := range []string{"If-None-Match", "If-Match"} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		req.Header.Set(condition, "*")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("PUT %s: %v", url, err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
			return
		}
		if res.StatusCode != http.StatusPreconditionFailed {
			t.Fatalf("PUT %s: answered %s", url, res.Status)
		}
	}
	t.Fatalf("PUT %s: neither new nor to be replaced", url)
}

// furnish declares a floor with two cabinets, of which one is watched by a mapping that fails in part.
func furnish(v *visit) {
	v.t.Helper()
	api := v.url + "/v1/"
	put(v.t, api+"types/Furniture", "application/json", `{"id":"Furniture","properties":{"floor":{"type":"integer","writable":true,"min":-2,"max":80}}}`)
	put(v.t, api+"types/Cabinet", "application/json", `{"id":"Cabinet","extends":["Furniture"],"description":"Keeps things cold","properties":{"setpoint":{"type":"number","unit":"°C","writable":true}},
		"telemetry":{"cold":{"type":"number","unit":"°C"}},"relations":{"standsOn":{"max":1}},"commands":{"defrost":{"request":{"type":"string"}}}}`)
	put(v.t, api+"entities/test-floor", "application/json", `{"attributes":{"name":"Ground floor"}}`)
	put(v.t, api+"entities/cabinet-a", "application/json", `{"type":"Cabinet","attributes":{"floor":3,"vendor":{"name":"Nord"}},"desired":{"setpoint":4,"light":"off"},
		"reported":{"setpoint":7,"light":"off","firmware":"1.2"},"relations":[{"type":"standsOn","to":"test-floor","properties":{"since":2020}}]}`)
	put(v.t, api+"entities/cabinet-b", "application/json", `{"type":"Cabinet","relations":[{"type":"besides","to":"cabinet-a"}]}`)
	put(v.t, api+"mappings/twice-cold", "text/plain", `insert into "test-floor" select "cabinet-a".cold * 2 as twice, 1 / ("cabinet-a".cold - "cabinet-a".cold) as broken`)
	post(v.t, api+"entities/cabinet-a/telemetry", `{"cold":5.5}`)
}

// row is the text of the cells of a table's row, by the row's head.
func row(table, head string) string {
	return fmt.Sprintf(`[...([...document.querySelectorAll('%s tbody tr')].find((tr) => tr.querySelector('th').textContent === %q)?.querySelectorAll('td') ?? [])].map((td) => td.textContent).join('|')`, table, head)
}

func testModel(v *visit) {
	furnish(v)
	p := v.open("/#/e/cabinet-a", 1280, 1200, "light")
	p.wait("the difference, marked", row(".twins", "setpoint")+` === '4|7|differs' && document.querySelectorAll('.twins tr.differs').length === 1`)
	p.wait("what is as desired", row(".twins", "light")+` === 'off|off|as desired' && `+row(".twins", "firmware")+` === '–|1.2|reported only'`)
	p.wait("the attributes with their age", `/^Nord\|(now|\d+ \w+)$/.test(`+row(".attributes", "vendor.name")+`)`)
	p.wait("the relations of both directions", `[...document.querySelectorAll('.relations tbody tr')].map((tr) => [...tr.querySelectorAll('td')].slice(0, 3).map((td) => td.textContent).join(' ')).join() === 'cabinet-a standsOn test-floor,cabinet-b besides cabinet-a'`)
	p.wait("the graph", `[...document.querySelectorAll('.graph a')].map((a) => a.getAttribute('href')).join() === '#/e/cabinet-b,#/e/test-floor' && document.querySelectorAll('.graph line').length === 2`)
	p.wait("a line or a dot", drawnPixels+" > 0")
	p.requireFits()
	p.screenshotWhole("entity-state")

	put(v.t, v.url+"/v1/entities/cabinet-a/attributes/reported", "application/json", `{"setpoint":4,"light":"off"}`)
	p.wait("the difference to go by itself", row(".twins", "setpoint")+` === '4|4|as desired' && document.querySelectorAll('.twins tr.differs').length === 0`)

	p.do("go to the type", chromedp.Click(`.facts a[href="#/types/Cabinet"]`))
	p.wait("the type with what it inherits", `document.querySelector('.type h2')?.textContent === 'Cabinet' && `+row(".schemas", "floor")+` === 'integer||from -2 to 80|writable'`)
	p.wait("its telemetry, relations and commands", row(".schemas", "cold")+` === 'number|°C|' && `+row(".schemas", "standsOn")+` === 'anything|1' && `+row(".schemas", "defrost")+` === 'string|none'`)
	p.requireFits()
	p.screenshot("types")
	p.do("go to its entities", chromedp.Click(`.type .panel-more`))
	p.wait("the entities of the type", `[...document.querySelectorAll('.entities tbody th')].map((th) => th.textContent).join() === 'cabinet-a,cabinet-b'`)

	evaluate[bool](p, `(location.hash = '#/mappings/twice-cold', true)`)
	p.wait("what the mapping computed", `document.querySelector('.field[aria-label=twice] .value')?.textContent === '11' && document.querySelector('.field[aria-label=twice] .sources .value').textContent === '5.5'`)
	p.wait("its failure", `document.querySelector('.field[aria-label=broken] .failure-text')?.textContent.includes('zero')`)
	p.wait("the lag and the state", `[...document.querySelectorAll('.tile')].some((tile) => tile.textContent.startsWith('Lag')) && document.querySelector('.listed .mapping-state').textContent === 'failing'`)
	p.requireFits()
	p.screenshot("mappings")
	p.requireQuiet()

	phone := v.open("/#/e/cabinet-a", 390, 844, "dark")
	for _, at := range []struct{ hash, name, there string }{
		{"#/e/cabinet-a", "phone-entity-state", `document.querySelector('.graph') && document.querySelector('.twins')`},
		{"#/types/Cabinet", "phone-types", `document.querySelector('.schemas')`},
		{"#/mappings/twice-cold", "phone-mappings", `document.querySelector('.sources')`},
	} {
		evaluate[bool](phone, fmt.Sprintf(`(location.hash = %q, true)`, at.hash))
		phone.wait(at.name, at.there)
		phone.requireFits()
		phone.screenshotWhole(at.name)
	}
	phone.requireQuiet()
}

func testQueries(v *visit) {
	furnish(v)
	p := v.open("/", 1280, 800, "light")
	const box = `input[role=combobox]`
	p.wait("the query box", `document.querySelector('`+box+`') && document.querySelectorAll('.entities tbody tr').length > 2`)
	p.do("begin a filter", typeInto(box, "col"))
	p.wait("a suggestion", `[...document.querySelectorAll('[role=option] code')].some((code) => code.textContent === 'cold') && document.querySelector('`+box+`').getAttribute('aria-expanded') === 'true'`)
	p.screenshot("query-completion")
	evaluate[bool](p, `(window.place = [...document.querySelectorAll('[role=option] code')].findIndex((code) => code.textContent === 'cold'), true)`)
	for range evaluate[int](p, `window.place + 1`) {
		p.do("choose by the keyboard", key("ArrowDown"))
	}
	p.do("take the suggestion", key("Tab"))
	p.wait("the completed word", `document.querySelector('`+box+`').value === 'cold '`)
	p.do("go on", typeInto(box, ">"))
	p.wait("what is wrong with it so far", `document.querySelector('.query-wrong')?.textContent.startsWith('Column ')`)
	p.do("finish and apply", typeInto(box, " 5"), key("Enter"))
	p.wait("the entities that match", `[...document.querySelectorAll('.entities tbody th')].map((th) => th.textContent).join() === 'cabinet-a' && location.hash.includes('filter=cold+%3E+5')`)

	post(v.t, v.url+"/v1/entities/cabinet-b/telemetry", `{"cold":9}`)
	p.wait("one that matches from now on", `[...document.querySelectorAll('.entities tbody th')].map((th) => th.textContent).join() === 'cabinet-a,cabinet-b'`)

	name := "Cold test"
	p.do("save it", chromedp.Click(`.saved button.link`), typeInto(`.saved input`, name), key("Enter"))
	p.wait("the saved query", `document.querySelector('.chip.current .chip-use')?.textContent === 'Cold test'`)
	p.screenshot("query-saved")
	p.requireFits()

	other := v.open("/", 390, 844, "dark")
	other.wait("the saved query elsewhere", `[...document.querySelectorAll('.chip-use')].some((button) => button.textContent === 'Cold test')`)
	other.do("use it", chromedp.Click(`.chip-use`))
	other.wait("its result", `[...document.querySelectorAll('.entities tbody th')].map((th) => th.textContent).join() === 'cabinet-a,cabinet-b'`)
	other.requireFits()
	other.screenshot("phone-query")
	other.do("delete it", chromedp.Click(`.chip-delete`))
	other.wait("no saved query", `!document.querySelector('.chip')`)
	other.requireQuiet()
	p.requireQuiet()

	p.setOffline(true) // the browser itself reports the 400 that is tested here
	p.do("a filter that cannot be read", chromedp.Click(`.query-input button:last-of-type`), typeInto(box, "cold >"), key("Enter"))
	p.wait("why", `document.querySelector('main > .problem')?.textContent.includes('column')`)
}
