package browsertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// postReading writes a reading over HTTP.
func postReading(t *testing.T, base, id, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/entities/"+id+"/telemetry", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("post a reading of %s: %s", id, resp.Status)
	}
}

// setText replaces what a field has.
func setText(p *page, selector, text string) {
	p.t.Helper()
	evaluate[bool](p, `(() => {
		const field = document.querySelector(`+quoted(selector)+`);
		field.value = `+quoted(text)+`;
		return field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`)
}

func quoted(text string) string {
	return "\"" + strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n").Replace(text) + "\""
}

func testScripts(v *visit) {
	for _, body := range []string{`{"ts":1000,"values":{"load":4}}`, `{"ts":2000,"values":{"load":9}}`} {
		postReading(v.t, v.url, "scripted", body)
	}
	p := v.open("/#/scripts", 1280, 900, "light")
	const source, check, marked = `.script-editor textarea`, `document.querySelector('.script-check').textContent`, `[...document.querySelectorAll('.code .marked')].map((line) => line.textContent).join()`
	p.wait("a script to begin with", `/on_reading/.test(document.querySelector('`+source+`')?.value)`)
	setText(p, source, "function on_reading(e, r)\n  if r.load > 5 them\n    e:set { high = true }\n  end\nend")
	p.wait("the line of the mistake", marked+` === '2' && /line:2|syntax error/.test(`+check+`)`)
	setText(p, source, "function on_reading(e, r)\n  self.n = (self.n or 0) + 1\n  if r.load > 5 then\n    e:set { high = r.load }\n    print('high')\n  end\nend")
	p.wait("no mistake", check+` === '' && `+marked+` === ''`)
	setText(p, `.script-editor input`, "high-load")
	setText(p, `.script-editor .fields label:nth-child(4) input`, "load")
	setText(p, `.script-trial input`, "scripted")
	p.do("try it", chromedp.Click(`.script-trial button[type=submit]`))
	p.wait("what it would have done", `document.querySelectorAll('.steps tbody tr').length === 2 && /set \{"high":9\}\s*high/.test(document.querySelector('.steps tbody').textContent) && /"n":2/.test(document.querySelector('.steps tbody').textContent)`)
	p.requireFits()
	p.screenshotWhole("scripts")
	p.do("save it", chromedp.Click(`.script-editor button[type=submit]`))
	p.wait("it in the list", `document.querySelector('.scripts .listed tbody th')?.textContent === 'high-load' && location.hash === '#/scripts/high-load'`)
	p.wait("its version", `document.querySelectorAll('[aria-label=Versions] li').length === 1 && !document.querySelector('.roll-back')`)
	setText(p, source, "function on_reading(e, r)\n  local limit = nil\n  if r.load > limit then e:set { high = 1 } end\nend")
	p.wait("no mistake to be seen", check+` === '' && !document.querySelector('.script-editor button[type=submit]').disabled`)
	p.do("save it as well", chromedp.Click(`.script-editor button[type=submit]`))
	p.wait("two versions", `document.querySelectorAll('[aria-label=Versions] li').length === 2`)
	postReading(v.t, v.url, "scripted", `{"ts":3000,"values":{"load":9}}`)
	p.wait("the failure, with its line", `/scripted, line 3/.test(document.querySelector('[aria-label=Failures]')?.textContent) && `+marked+` === '3'`)
	p.screenshotWhole("scripts-failure")
	p.do("roll back", chromedp.Click(`.roll-back`))
	p.wait("the first version again", `/self.n/.test(document.querySelector('`+source+`').value) && document.querySelectorAll('[aria-label=Versions] li').length === 3`)
	postReading(v.t, v.url, "scripted", `{"ts":4000,"values":{"load":8}}`)
	p.wait("calls that do not fail", `/2 calls, 1 failed, 1 effect,/.test(document.querySelector('.script-counts').textContent)`)
	p.wait("no line of the other version", marked+` === ''`)
	p.wait("the version named by its time", `/back to the version of \d\d:\d\d:\d\d/.test(document.querySelector('[aria-label=Versions]').textContent) && /of an earlier version/.test(document.querySelector('[aria-label=Failures]').textContent)`)
	const unsaved = `document.querySelector('.unsaved')?.textContent`
	p.wait("everything saved", unsaved+` === undefined`)
	setText(p, source, "-- mine\nfunction on_reading(e, r) end")
	p.wait("what is not saved", unsaved+` === 'not saved'`)
	p.do("switch it off", chromedp.Click(`.script-editor .buttons .link`))
	p.wait("it to be off", `/^off/.test(document.querySelector('.script-counts').textContent)`)
	p.wait("what is not saved to be kept", unsaved+` === 'not saved' && /mine/.test(document.querySelector('`+source+`').value)`)
	p.screenshotWhole("scripts-unsaved")
	testDrafts(p, source)
	phone := v.open("/#/scripts/high-load", 390, 844, "dark")
	phone.wait("the script", `document.querySelector('.script-editor input')?.value === 'high-load'`)
	phone.requireFits()
	phone.screenshotWhole("scripts-phone")
	phone.requireQuiet()
}

// testDrafts has somebody else save the script that is being edited, and another page opened.
func testDrafts(p *page, source string) {
	const button, versions = `.script-editor button[type=submit]`, `document.querySelectorAll('[aria-label=Versions] li').length`
	text := `document.querySelector('` + source + `').value`
	saveBeside := func(source string) {
		evaluate[bool](p, `(async () => {
			const at = '/v1/scripts/high-load', { etag } = await (await fetch(at)).json();
			await fetch(at, { method: 'PUT', headers: { 'content-type': 'application/json', 'if-match': '"' + etag + '"' }, body: JSON.stringify({ source: `+quoted(source)+` }) });
		})() instanceof Promise`)
	}
	answer := func(yes string) {
		evaluate[bool](p, `{ window.asked = 0; window.confirm = () => { window.asked++; return `+yes+` }; true }`)
	}
	const theirs = "-- theirs\nfunction on_reading(e, r) end"
	saveBeside(theirs)
	p.wait("that somebody else has saved", `/saved another version/.test(document.querySelector('.newer')?.textContent) && document.querySelector('`+button+`').disabled`)
	p.wait("the draft to be kept", `/mine/.test(`+text+`)`)
	p.screenshotWhole("scripts-newer")
	p.do("keep it", chromedp.Click(`.newer button:last-child`))
	p.wait("that it may be saved", `!document.querySelector('.newer') && !document.querySelector('`+button+`').disabled`)
	p.do("save it", chromedp.Click(button))
	p.wait("it saved", versions+` === 5 && !document.querySelector('.unsaved') && /mine/.test(`+text+`)`)
	saveBeside(theirs)
	p.wait("theirs, without a draft in the way", versions+` === 6 && /theirs/.test(`+text+`) && !document.querySelector('.newer')`)
	setText(p, source, "-- a draft")
	answer("false")
	p.do("begin another", chromedp.Click(`[aria-label=Scripts] footer a`))
	p.wait("the draft to be kept", `window.asked === 1 && location.hash === '#/scripts/high-load' && /a draft/.test(`+text+`)`)
	p.do("go to another page", chromedp.Click(`nav a[href="#/mappings"]`))
	p.wait("the page to stay", `window.asked === 2 && location.hash === '#/scripts/high-load' && /a draft/.test(`+text+`)`)
	answer("true")
	p.do("begin another", chromedp.Click(`[aria-label=Scripts] footer a`))
	p.wait("another", `window.asked === 1 && location.hash === '#/scripts' && /on_reading/.test(`+text+`) && document.querySelector('.script-editor input').value === ''`)
	p.do("look at the first", chromedp.Click(`[aria-label=Scripts] tbody a`))
	p.wait("it, without a question", `window.asked === 1 && /theirs/.test(`+text+`)`)
	setText(p, source, "-- an older draft")
	saveBeside("-- theirs again\nfunction on_reading(e, r) end")
	p.wait("that somebody else has saved", `document.querySelector('.newer') !== null`)
	p.do("take theirs", chromedp.Click(`.newer button`))
	p.wait("theirs", `/theirs again/.test(`+text+`) && !document.querySelector('.unsaved, .newer')`)
}
