package browsertest

import "github.com/chromedp/chromedp"

func testAlarms(v *visit) {
	api := v.url + "/v1/"
	p := v.open("/#/alarms", 1280, 900, "light")
	p.wait("the form of a rule", `document.querySelector('.alarm-rule') && /No open alarms/.test(document.querySelector('main').textContent)`)
	const field = `.alarm-rule label:nth-child(`
	p.do("write a rule", typeInto(field+"1) input", "overheating"), typeInto(field+"2) input", "heat > 80"), typeInto(field+"3) input", "heat < 70"), typeInto(field+"7) input", "The boiler is too hot."),
		chromedp.Click(`.alarm-rule button[type=submit]`))
	p.wait("the rule", `/heat > 80/.test(document.querySelector('[aria-label="Rules"] tbody')?.textContent)`)
	post(v.t, api+"entities/boiler-9/telemetry", `{"heat":90}`)
	post(v.t, api+"entities/boiler-10/telemetry", `{"heat":95.5}`)
	p.wait("the alarms", `document.querySelectorAll('.alarms tbody tr').length === 2`)
	p.wait("the badge", `document.querySelector('nav .badge')?.textContent === '2'`)
	p.requireFits()
	p.screenshotWhole("alarms")
	p.do("acknowledge one", chromedp.Click(`.alarms button[aria-label="Acknowledge overheating of boiler-9"]`))
	p.wait("that it is", `/acknowledged/.test(document.querySelector('.alarms tbody').textContent)`)
	p.wait("one less in the badge", `document.querySelector('nav .badge')?.textContent === '1'`)
	evaluate[bool](p, `(() => { const s = document.querySelector('select[aria-label="Shelve overheating of boiler-10"]'); s.value = '1h'; return s.dispatchEvent(new Event('change', {bubbles: true})); })()`)
	p.wait("that the other is shelved", `/shelved until/.test(document.querySelector('.alarms tbody').textContent) && !document.querySelector('nav .badge')`)
	post(v.t, api+"entities/boiler-9/telemetry", `{"heat":20}`)
	p.wait("one to go by itself", `document.querySelectorAll('.alarms tbody tr').length === 1`)
	evaluate[bool](p, `(location.hash = '#/e/boiler-9', true)`)
	p.wait("it on the page of its entity", `/cleared/.test(document.querySelector('.alarms tbody .alarm-state')?.textContent)`)
	p.requireFits()
	p.screenshotWhole("entity-alarms")
	p.requireQuiet()

	phone := v.open("/#/alarms", 390, 844, "dark")
	phone.wait("the alarms", `document.querySelectorAll('.alarms tbody tr').length === 1`)
	phone.requireFits()
	phone.screenshotWhole("phone-alarms")
	phone.requireQuiet()
}
