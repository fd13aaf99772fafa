package browsertest

func testPresence(v *visit) {
	api := v.url + "/v1/"
	put(v.t, api+"types/Brief", "application/json", `{"id":"Brief","presence":{"timeout":"2s"}}`)
	put(v.t, api+"entities/brief-1", "application/json", `{"type":"Brief"}`)
	p := v.open("/#/e/brief-1", 1280, 900, "light")
	const text = `document.querySelector('.facts .presence')?.textContent`
	p.wait("a device that was never heard of", text+` === 'never heard of'`)
	post(v.t, api+"entities/brief-1/telemetry", `{"t":1}`)
	p.wait("it to be online", `/^online since /.test(`+text+`)`)
	p.requireFits()
	p.screenshot("entity-online")
	p.wait("it to be offline by itself", `/^offline, last seen .* ago$/.test(`+text+`)`)
	list := v.open("/#/?search=brief-1", 1280, 800, "dark")
	const dot = `document.querySelector('.entities tbody .presence-dot')`
	list.wait("the dot of its row", dot+`?.classList.contains('offline') && /^offline/.test(`+dot+`.getAttribute('aria-label'))`)
	post(v.t, api+"entities/brief-1/telemetry", `{"t":2}`)
	list.wait("the dot to follow", dot+`?.classList.contains('online')`)
	list.screenshot("entities-presence")
	list.requireQuiet()
	p.requireQuiet()
}
