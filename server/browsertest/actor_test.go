package browsertest

// fact is the value beside a name in the lists of an actor's page.
const fact = `(name) => [...document.querySelectorAll('dl.rows div')].find((div) => div.querySelector('dt').textContent === name)?.querySelector('dd').textContent ?? ''`

// trouble makes the answers about an actor those of one that fails and does not get to answer: the demo
// has none.
const trouble = `(window.fetch = ((fetch) => async (url, init) => {
	const response = await fetch(url, init);
	if (!String(url).startsWith('v1/actor?')) return response;
	const detail = await response.json();
	const failure = { time_ms: detail.now_ms - 90_000, error: 'panic: runtime error: index out of range [7] with length 3', message_type: '*entity.delivery', stack: 'goroutine 7 [running]:\nmain.main()' };
	return new Response(JSON.stringify({
		...detail, busy: true, oldest_ms: 2300, current: '*entity.delivery', sender: 'greenroom/dispatcher#1', waits_for: detail.parent,
		mail: [{ type: '*entity.delivery', count: 41 }, { type: 'entity.viewRequest', count: 3 }],
		failures: [failure, { time_ms: detail.now_ms - 95_000, error: 'the store does not answer', message_type: 'entity.retire' }], view: undefined,
	}));
})(window.fetch), true)`

// testActor goes from an entity to its actor, from there to its parent, and from the tree to an actor.
func testActor(v *visit) {
	p := v.open("/", 1280, 800, "light")
	p.wait("the panel of an entity", `document.querySelector('.panel h2 a')`)
	evaluate[bool](p, `(window.wanted = document.querySelector('.panel h2 a').textContent, document.querySelector('.panel h2 a').click(), true)`)
	p.wait("the link to the actor", `document.querySelector('.facts a.actor-link')`)
	evaluate[bool](p, `(document.querySelector('.facts a.actor-link').click(), true)`)
	p.wait("the page of the entity's actor", `location.hash === '#/actors/entities/' + encodeURIComponent(window.wanted) && document.querySelector('h1').textContent === window.wanted`)
	p.wait("what the entity shows of itself", `(`+fact+`)('id') === window.wanted && parseInt((`+fact+`)('keys')) > 0 && (`+fact+`)('loaded') === 'true'`)
	p.wait("what it does", `(`+fact+`)('Handled last') + (`+fact+`)('Handles') !== ''`)
	p.wait("whether it is busy", `/^(idle|runnable|running|waiting)/.test((`+fact+`)('Activity'))`)
	remember(p, "seq", `(`+fact+`)('seq')`)
	p.wait("the sequence to grow", changed("seq", `(`+fact+`)('seq')`))
	p.wait("a rate", `[...document.querySelectorAll('.tile')].some((tile) => /Messages/.test(tile.textContent) && parseFloat(tile.querySelector('.tile-value').textContent) > 0)`)
	p.wait("a chart of the rates", drawnPixels+" > 5")
	p.wait("no failures", `document.querySelector('.failures').textContent.includes('None')`)
	p.wait("the way back to the entity", `document.querySelector('.facts a[href^="#/e/"]').textContent === window.wanted`)
	p.requireFits()
	p.screenshot("actor")

	evaluate[bool](p, trouble)
	p.wait("the failure with its message", `document.querySelector('.failure-text')?.textContent.includes('index out of range') && document.querySelector('.failure-head code').textContent === '*entity.delivery'`)
	p.wait("when it failed", `/\d\d:\d\d:\d\d/.test(document.querySelector('.failure-head time').textContent)`)
	p.wait("the stack of the panic", `document.querySelector('.failures details pre').textContent.includes('goroutine 7')`)
	p.wait("the mailbox by type", `[...document.querySelectorAll('.mail tbody tr')].map((tr) => tr.textContent).join() === '*entity.delivery41,entity.viewRequest3'`)
	p.wait("whom it waits for", `(`+fact+`)('Waits for') === '/entities'`)
	p.wait("that it is busy", `document.querySelector('.doing .busy') && document.querySelector('.view').textContent.includes('busy')`)
	p.screenshot("actor-trouble")
	p.requireQuiet()

	evaluate[bool](p, `(location.hash = '#/actors', true)`)
	p.wait("the tree", `[...document.querySelectorAll('.actors a.actor-name')].some((a) => a.textContent === 'entities')`)
	evaluate[bool](p, `([...document.querySelectorAll('.actors a.actor-name')].find((a) => a.textContent === 'entities').click(), true)`)
	p.wait("the page of the manager with its children", `location.hash === '#/actors/entities' && document.querySelectorAll('.bonds .pids a').length > 2`)
	p.wait("its timers", `document.querySelector('.timers')`)
	p.requireFits()
	p.requireQuiet()
	evaluate[bool](p, `(document.querySelector('.doing a.panel-more').click(), true)`)
	p.wait("what it has handled, as package inspect shows it", `location.pathname === '/inspect/record' && /handled in/.test(document.querySelector('h1')?.textContent)`)
	p.requireFits()
	p.screenshot("actor-record")
	p.requireQuiet()

	gone := v.open("/#/actors/no/such", 1280, 800, "light")
	gone.setOffline(true) // the browser itself reports the 404 that is tested here
	gone.wait("the news that there is no such actor", `document.querySelector('.problem')?.textContent.includes('There is no actor at /no/such')`)
	gone.requireFits()
	gone.requireQuiet()
}

// testPhoneActor looks at the page of an actor in trouble on a phone, which has the most to show.
func testPhoneActor(v *visit) {
	p := v.open("/#/actors/entities", 390, 844, "dark")
	p.wait("children", `document.querySelectorAll('.bonds .pids a').length > 2`)
	evaluate[bool](p, trouble)
	p.wait("the failure", `document.querySelector('.failure-text')`)
	p.requireFits()
	p.screenshotWhole("phone-actor")
	p.requireQuiet()
}
