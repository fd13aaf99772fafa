package browsertest

import (
	"net/http"

	"github.com/chromedp/chromedp"
)

// testProvisioning makes a provision key, has a device come with it by the command that is shown, and revokes the key.
func (g *guarded) testProvisioning() {
	g.ask("PUT", "/v1/types/Fan", `{"id":"Fan"}`, http.StatusCreated)
	p := g.open("/#/access", 1280, 900, "light")
	p.wait("the way to the page", `document.querySelector('.parts a[href="#/access/provisioning"]')`)
	p.do("go there", chromedp.Click(`.parts a[href="#/access/provisioning"]`))
	p.wait("the form", `document.querySelector('.provision-form input')`)
	p.do("fill it in", typeInto(".provision-form label:nth-child(1) input", "fans"), typeInto(".provision-form label:nth-child(2) input", "fan-"),
		typeInto(".provision-form label:nth-child(4) input", "Fan"), typeInto(".provision-form label:nth-child(5) input", "2"))
	p.do("make the key", chromedp.Click(".provision-form button[type=submit]"))
	p.wait("its secret", `/^provision-fans_/.test(document.querySelector('.secret code')?.textContent)`)
	p.wait("the key in the list", `/0 of 2/.test(document.querySelector('.keys-listed tbody')?.textContent)`)
	runAsItIs(g.t, p.copied(".secret", 1), "CURL_CA_BUNDLE="+g.ca) // a machine that knows the CA
	p.wait("the device to be counted", `/1 of 2/.test(document.querySelector('.keys-listed tbody').textContent)`)
	p.do("look at its devices", chromedp.Click(".keys-listed th a"))
	p.wait("the device", `document.querySelector('.devices-listed tbody th')?.textContent === 'fan-1' && location.hash === '#/access/provisioning?key=fans'`)
	p.requireFits()
	p.screenshotWhole("provisioning")
	p.requireQuiet()
	phone := g.open("/#/access/provisioning?key=fans", 390, 844, "dark")
	phone.wait("the device", `document.querySelector('.devices-listed tbody th')?.textContent === 'fan-1'`)
	phone.requireFits()
	phone.screenshotWhole("provisioning-phone")
	evaluate[bool](p, `(window.confirm = () => true, true)`)
	p.do("revoke the key", chromedp.Click(".keys-listed tbody button"))
	p.wait("an empty list, and the device", `!document.querySelector('.keys-listed') && document.querySelector('.devices-listed tbody th').textContent === 'fan-1'`)
	p.requireQuiet()
}

// testClaims has a device offer itself, and two people claim it.
func (g *guarded) testClaims() {
	device := g.principal(`{"name":"lock-1","grants":[{"role":"device"}]}`)
	alice := g.principal(`{"name":"alice","grants":[{"role":"operator","filter":"attributes.claimedBy = \"alice\""}]}`)
	offer := func(token string) {
		g.ask("POST", "/api/v1/"+token+"/claim", `{"secretKey":"from-the-label","durationMs":7200000}`, http.StatusOK)
	}
	g.ask("POST", "/api/v1/"+device+"/telemetry", `{"open":false}`, http.StatusOK)
	p := g.open("/#/access/claims", 1280, 900, "light")
	p.wait("that there is nothing to claim", `/No device can be claimed/.test(document.querySelector('main').textContent) && /No claimed device/.test(document.querySelector('main').textContent)`)
	offer(device)
	p.wait("the offer", `/lock-1(1 h|2 h)/.test(document.querySelector('.offers-listed tbody')?.textContent)`)
	p.setOffline(true) // the browser reports the 404
	p.do("claim it with a wrong secret", typeInto(".claim-form label:nth-child(1) input", "lock-1"), typeInto(".claim-form label:nth-child(2) input", "guess"), chromedp.Click(".claim-form button"))
	p.wait("that it does not do", `/with that secret/.test(document.querySelector('.claim-form [role=alert]').textContent)`)
	evaluate[bool](p, `(() => { const field = document.querySelector('.claim-form label:nth-child(2) input'); field.value = ''; return field.dispatchEvent(new Event('input')); })()`)
	p.do("claim it with the right one", typeInto(".claim-form label:nth-child(2) input", "from-the-label"), chromedp.Click(".claim-form button"))
	p.wait("who has it", `/lock-1 is claimed by admin/.test(document.querySelector('.claim-form [role=status]').textContent) && /lock-1admin/.test(document.querySelector('.claimed-listed tbody')?.textContent)`)
	p.wait("no offer any more", `!document.querySelector('.offers-listed')`)
	p.requireFits()
	p.screenshotWhole("claims")

	other := g.principal(`{"name":"lock-2","grants":[{"role":"device"}]}`)
	g.ask("POST", "/api/v1/"+other+"/telemetry", `{"open":true}`, http.StatusOK)
	offer(other)
	g.login(alice)
	phone := g.open("/#/access/claims", 390, 844, "dark")
	phone.setOffline(true) // she may not read /v1/system
	phone.wait("a page for who may not manage", `document.querySelector('.claim-form') && !document.querySelector('.parts') && document.querySelector('header nav a[href="#/access/claims"]') && !document.querySelector('header nav a[href="#/access"]')`)
	phone.do("claim another device", typeInto(".claim-form label:nth-child(1) input", "lock-2"), typeInto(".claim-form label:nth-child(2) input", "from-the-label"), chromedp.Click(".claim-form button"))
	phone.wait("what she has, and nothing else", `document.querySelector('.claimed-listed tbody')?.textContent === 'lock-2alice'`)
	phone.requireFits()
	phone.screenshotWhole("claims-phone")
	phone.requireQuiet()
}
