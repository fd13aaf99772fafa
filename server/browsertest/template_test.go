package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// publish sends a message with QoS 1 over MQTT.
func publish(t *testing.T, address, topic, payload string) {
	t.Helper()
	c := mqtt311.NewClient(mqtt311.NewClientOptions().AddBroker("tcp://" + address).SetClientID("bridge"))
	for _, token := range []func() mqtt311.Token{c.Connect, func() mqtt311.Token { return c.Publish(topic, 1, false, payload) }} {
		if token := token(); !token.WaitTimeout(waitLimit) || token.Error() != nil {
			t.Fatalf("publish to %s: %v", topic, token.Error())
		}
	}
	c.Disconnect(100)
}

func testTemplates(v *visit, mqtt string) {
	publish(v.t, mqtt, "greenhouse/bed-3/climate", `{"air":{"t":215,"rh":60}}`)
	p := v.open("/#/templates", 1280, 900, "light")
	const outcome = `document.querySelector('.outcome')?.textContent`
	p.wait("what was refused", `[...document.querySelectorAll('.templates .picks button')].some((b) => b.textContent === 'greenhouse/bed-3/climate')`)
	p.do("pick it", chromedp.Click(`.templates .picks button`))
	p.wait("a template to begin with, tried on it", `/A reading of bed-3 at the time of arrival/.test(`+outcome+`) && /"rh":60/.test(`+outcome+`.replaceAll(/\s/g, ''))`)
	evaluate[bool](p, `(() => {
		const field = document.querySelector('.template-editor textarea');
		field.value = '{"topic":"greenhouse/{id}/climate","values":{"temperature":"air.t / 10","humidity":"air.rh"';
		return field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`)
	p.wait("what is wrong with it", `/must be JSON/.test(`+outcome+`)`)
	p.do("complete and name it", typeInto(".template-editor textarea", "}}"), typeInto(".template-editor input", "greenhouse"))
	p.wait("the computed values", `/"temperature":21.5/.test(`+outcome+`.replaceAll(/\s/g, ''))`)
	p.requireFits()
	p.screenshotWhole("templates")
	p.do("save it", chromedp.Click(`.template-editor button[type=submit]`))
	p.wait("it in the list", `document.querySelector('.templates .listed tbody th')?.textContent === 'greenhouse' && location.hash === '#/templates/greenhouse'`)
	publish(v.t, mqtt, "greenhouse/bed-3/climate", `{"air":{"t":220,"rh":61}}`)
	p.wait("it to be as it was saved", `/air.rh/.test(document.querySelector('.template-editor textarea').value)`)
	p.requireQuiet()
	e := v.open("/#/e/bed-3", 1280, 900, "light")
	e.wait("the readings of the entity", `/humidity/.test(document.querySelector('main').textContent) && /61/.test(document.querySelector('main').textContent)`)
	phone := v.open("/#/templates/greenhouse", 390, 844, "dark")
	phone.wait("the template", `document.querySelector('.template-editor input')?.value === 'greenhouse'`)
	phone.requireFits()
	phone.screenshotWhole("templates-phone")
	phone.requireQuiet()
}
