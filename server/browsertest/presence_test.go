package browsertest

import "strconv"

// speak has the page report for a device again and again until quiet is called: a browser may
// take longer to show one report than the device counts as online after it.
func speak(p *page, entity string) (quiet func()) {
	timer := evaluate[int](p, `setInterval(() => fetch('/v1/entities/`+entity+`/telemetry', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"t":1}'}), 500)`)
	return func() { evaluate[bool](p, `(clearInterval(`+strconv.Itoa(timer)+`), true)`) }
}

func testPresence(v *visit) {
	api := v.url + "/v1/"
	put(v.t, api+"types/Brief", "application/json", `{"id":"Brief","presence":{"timeout":"2s"}}`)
	put(v.t, api+"entities/brief-1", "application/json", `{"type":"Brief"}`)
	p := v.open("/#/e/brief-1", 1280, 900, "light")
	const text = `document.querySelector('.facts .presence')?.textContent`
	p.wait("a device that was never heard of", text+` === 'never seen'`)
	quiet := speak(p, "brief-1")
	p.wait("it to be online", `/^online since /.test(`+text+`)`)
	p.requireFits()
	p.screenshot("entity-online")
	quiet()
	p.wait("it to be offline by itself", `/^offline, last seen .* ago$/.test(`+text+`)`)
	list := v.open("/#/?search=brief-1", 1280, 800, "dark")
	const dot = `document.querySelector('.entities tbody .presence-dot')`
	list.wait("the dot of its row", dot+`?.classList.contains('offline') && /^offline/.test(`+dot+`.getAttribute('aria-label'))`)
	quiet = speak(list, "brief-1")
	list.wait("the dot to follow", dot+`?.classList.contains('online')`)
	quiet()
	list.screenshot("entities-presence")
	list.requireQuiet()
	p.requireQuiet()
}
