package browsertest

import (
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// typeInto types as a person does, key by key, into the first match of a CSS selector.
func typeInto(selector, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(selector, text)
}

// key presses one key where the focus is.
func key(name string) chromedp.Action[chromedp.Void] {
	keys := map[string]string{"ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight, "ArrowDown": kb.ArrowDown, "Enter": kb.Enter, "Tab": kb.Tab}
	return chromedp.KeyEvent(keys[name])
}
