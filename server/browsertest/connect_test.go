package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	control "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

const (
	// arrived is that a reading has come.
	arrived = `document.querySelector('.arrival.arrived')`
	// arrival is what the page says of that.
	arrival = `document.querySelector('.arrival [role=status]').textContent`
)

// choose picks a convention on the page that connects a device.
func (p *page) choose(id string) {
	p.t.Helper()
	p.do("choose "+id, chromedp.Click(fmt.Sprintf(`.choices input[value=%q]`, id)))
	p.wait("the choice", fmt.Sprintf(`document.querySelector('.choice.chosen input').value === %q`, id))
}

// makeConnection makes the credentials, and returns how many commands are shown.
func (p *page) makeConnection() int {
	p.t.Helper()
	p.do("make the credentials", chromedp.Click(".connect-form button[type=submit]"))
	p.wait("the commands", `document.querySelector('.connect-made .command code') || document.querySelector('.connect-form [role=alert]').textContent`)
	if wrong := evaluate[string](p, `document.querySelector('.connect-form [role=alert]')?.textContent ?? ''`); wrong != "" {
		p.t.Fatalf("there are no commands: %s", wrong)
	}
	return evaluate[int](p, `document.querySelectorAll('.connect-made .command').length`)
}

// copied presses the button of the n-th command in a place, and returns what the clipboard has then.
func (p *page) copied(place string, n int) string {
	p.t.Helper()
	button := fmt.Sprintf("%s .command:nth-of-type(%d) button", place, n)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		permit := control.SetPermissionParams{Permission: &control.PermissionDescriptor{Name: name}, Setting: control.PermissionSettingGranted}
		if _, err := chromedp.CallBrowser(p.ctx, control.SetPermission, permit); err != nil {
			p.t.Fatalf("permit the clipboard: %v", err)
		}
	}
	p.do("copy", chromedp.Click(button))
	p.wait("what was copied", fmt.Sprintf(`document.querySelector(%q).textContent === 'Copied'`, button))
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`navigator.clipboard.readText()`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("read the clipboard: %v", err)
	}
	return text
}

// runAsItIs runs a command in a shell, as who has copied it does, with more in its environment.
func runAsItIs(t *testing.T, command string, env ...string) {
	t.Helper()
	program := "mosquitto_pub"
	if strings.HasPrefix(command, "curl ") {
		program = "curl"
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("NOT TESTED with %s: it is not installed", program)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// testConnectOpen connects a device from the page of its entity, without credentials.
func testConnectOpen(v *visit) {
	e := v.open("/#/e/bench%201", 1280, 900, "light")
	e.setOffline(true) // the entity is not there yet
	e.wait("the way to connect it", `document.querySelector('.problem a[href*=connect]')`)
	e.do("go there", chromedp.Click(`.problem a[href*=connect]`))
	e.wait("its id in the form", `document.querySelector('.connect-form input[list]').value === 'bench 1' && /needs no credentials/.test(document.querySelector('main').textContent)`)
	if n := e.makeConnection(); n != 3 {
		v.t.Fatalf("%d commands are shown, want one for MQTT, one for HTTP and one that shows commands", n)
	}
	e.wait("that nothing has come yet", `/Waiting for the first reading of bench 1/.test(`+arrival+`)`)
	runAsItIs(v.t, e.copied(".connect-made", 1))
	e.wait("the reading", arrived+` && /temperature is 21.5, measured at/.test(`+arrival+`)`)
	e.requireQuiet()
}

// testConnect connects devices that have to log in, with each convention, by TLS.
func (g *guarded) testConnect() {
	g.ask("PUT", "/v1/templates/bench", `{"topic":"bench/{id}/air","values":{"temperature":"air.t"}}`, http.StatusCreated)
	p := g.open("/#/access", 1280, 900, "light")
	p.wait("the way to the page", `document.querySelector('.parts a[href="#/access/connect"]')`)
	p.do("go there", chromedp.Click(`.parts a[href="#/access/connect"]`))
	p.wait("the form", `document.querySelector('.connect-form input[list]')`)
	for n, c := range []struct {
		convention, entity string
		command            int // the first is for MQTT, the second for HTTP
		said               string
	}{
		{"native", "pump-1", 1, "measured"},
		{"native", "hall 3", 2, "measured"},
		{"thingsboard", "pump-2", 1, "measured"},
		{"thingsboard", "pump-3", 2, "measured"},
		{"aws", "pump-4", 1, "reported"},
		{"aws", "pump 5", 2, "reported"},
		{"azure", "pump-6", 1, "measured"},
		{"azure", "pump-7", 2, "measured"},
		{"homie", "pump-8", 1, "measured"},
		{"sparkplug", "plant|line-1", 1, "measured"},
		{"template bench", "bench-6", 1, "measured"},
	} {
		p.do("name the entity", typeInto(".connect-form input[list]", c.entity))
		p.choose(c.convention)
		if n == 0 {
			p.do("say where the CA is", chromedp.Click(".place summary"), typeInto(".place label:nth-child(2) input", g.ca))
			p.requireFits()
			p.screenshotWhole("connect-form")
		}
		if commands := p.makeConnection(); commands < c.command {
			g.t.Fatalf("%d commands are shown for %s", commands, c.convention)
		}
		if n == 0 {
			p.screenshotWhole("connect-waiting")
		}
		runAsItIs(g.t, p.copied(".connect-made", c.command))
		p.wait("what has arrived", arrived+` && `+fmt.Sprintf(`%s.includes('temperature is 21.5, %s at')`, arrival, c.said))
		if n == 0 {
			p.requireFits()
			p.screenshotWhole("connect-arrived")
		}
		p.do("go on", chromedp.Click(".connect-made > button"))
		p.wait("an empty form", `document.querySelector('.connect-form input[list]').value === ''`)
	}
	p.do("take a name that is taken", typeInto(".connect-form input[list]", "pump-1"), chromedp.Click(".connect-form button[type=submit]"))
	p.setOffline(true) // the browser reports the 409
	p.wait("why that does not do", `/pump-1/.test(document.querySelector('.connect-form [role=alert]').textContent)`)
	p.requireQuiet()
	phone := g.open("/#/access/connect?entity=bench-7&as=template%20bench", 390, 844, "dark")
	phone.wait("the template, chosen", `document.querySelector('.choice.chosen input')?.value === 'template bench'`)
	phone.requireFits()
	phone.screenshotWhole("connect-form-phone")
	phone.makeConnection()
	phone.wait("its message", `document.querySelector('.message textarea').value === '{"air":{"t":21.5}}'`)
	phone.requireFits()
	phone.screenshotWhole("connect-waiting-phone")
	evaluate[bool](phone, `(() => {
		const field = document.querySelector('.message textarea');
		field.value = '{"air":';
		return field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`)
	phone.setOffline(true) // a message that the template refuses
	phone.wait("what is wrong with the message", `document.querySelector('.connect-made [role=alert]').textContent !== ''`)
	phone.requireQuiet()
}
