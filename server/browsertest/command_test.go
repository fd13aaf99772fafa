package browsertest

import "github.com/chromedp/chromedp"

func testCommands(v *visit) {
	api := v.url + "/v1/"
	put(v.t, api+"types/Valve", "application/json", `{"id":"Valve","commands":{"open":{"request":{"type":"object","fields":{"angle":{"type":"number","max":90}}}}}}`)
	put(v.t, api+"entities/valve-1", "application/json", `{"type":"Valve"}`)
	p := v.open("/#/e/valve-1", 1280, 900, "light")
	p.wait("the declared commands", `[...document.querySelectorAll('#declared-commands option')].map((o) => o.value).join() === 'open'`)
	p.do("name a command", typeInto(".send-command input[list]", "open"), typeInto(".command-request-field input", "{angle"), chromedp.Click(`.send-command button`))
	p.wait("what is wrong with the request", `/must be JSON/.test(document.querySelector('.send-command .problem')?.textContent)`)
	evaluate[bool](p, `(() => { const field = document.querySelector('.command-request-field input'); field.value = ''; return field.dispatchEvent(new Event('input')); })()`)
	p.do("mend it and send", typeInto(".command-request-field input", `{"angle":30}`), chromedp.Click(`.send-command button`))
	const states = `[...document.querySelectorAll('.commands tbody .command-state')].map((td) => td.textContent).join()`
	p.wait("the command in its state", states+` === 'queued'`)
	id := evaluate[string](p, `document.querySelector('.commands tbody code').title`)
	p.do("send another", typeInto(".command-request-field input", `{"angle":5}`), chromedp.Click(`.send-command button`))
	p.wait("both, the newest first", states+` === 'queued,queued'`)
	post(v.t, api+"entities/valve-1/answers", `{"id":"`+id+`","result":"opened"}`)
	p.wait("the end to show by itself", states+` === 'queued,done' && /opened/.test(document.querySelector('.commands tbody').textContent)`)
	p.requireFits()
	p.screenshotWhole("entity-commands")
	p.do("cancel it", chromedp.Click(`.commands tbody button`))
	p.wait("the canceled command", states+` === 'canceled,done' && document.querySelectorAll('.commands tbody button').length === 0`)
	p.requireQuiet()
}
