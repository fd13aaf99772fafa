package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// waitLimit is how long a condition in the page may take to come true.
const waitLimit = 45 * time.Second

// browser is one headless Chromium with a profile of its own.
type browser struct {
	ctx         context.Context
	screenshots string
}

// startBrowser starts Chromium; it ends with the test.
func startBrowser(t *testing.T, path string) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // containers run the tests as root, where Chromium refuses its sandbox
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("ignore-certificate-errors", true), // those of the tests are their own
		chromedp.UserDataDir(t.TempDir()),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		limited, end := context.WithTimeout(ctx, 20*time.Second)
		defer end()
		if err := chromedp.Cancel(limited); err != nil {
			t.Logf("close the browser: %v", err)
		}
		cancel()
		stop()
	})
	screenshots := os.Getenv("GREENROOM_SCREENSHOTS")
	if screenshots == "" {
		screenshots = t.ArtifactDir()
	}
	return &browser{ctx: ctx, screenshots: screenshots}
}

// visit is one test's way to the dashboard.
type visit struct {
	t       *testing.T
	browser *browser
	url     string
}

// open opens a tab at a path of the dashboard.
func (v *visit) open(path string, width, height int64, scheme string) *page {
	v.t.Helper()
	return v.browser.open(v.t, v.url+path, width, height, scheme)
}

// page is one tab. It remembers what the page complained about.
type page struct {
	t           *testing.T
	ctx         context.Context
	screenshots string

	mu       sync.Mutex
	problems []string
	offline  bool
}

// open opens a tab of a size and a color scheme at an address.
func (b *browser) open(t *testing.T, url string, width, height int64, scheme string) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx, screenshots: b.screenshots}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatalf("choose the %s scheme: %v", scheme, err)
	}
	p.do(fmt.Sprintf("open %s", url), chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	return p
}

// listen collects errors and warnings of the console, exceptions, and what the
// browser itself says, such as a resource that the content policy refuses.
func (p *page) listen(event any) {
	var problem string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if kind := string(e.Type); kind == "error" || kind == "warning" || kind == "assert" {
			var words []string
			for _, arg := range e.Args {
				words = append(words, strings.TrimSpace(string(arg.Value)+" "+arg.Description))
			}
			problem = kind + ": " + strings.Join(words, " ")
		}
	case *log.EventEntryAdded:
		if level := string(e.Entry.Level); level == "error" || level == "warning" {
			problem = fmt.Sprintf("%s (%s): %s %s", level, e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if problem == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offline && strings.Contains(problem, "Failed to load resource") {
		return // the server is away on purpose, and every browser reports that
	}
	p.problems = append(p.problems, problem)
}

// setOffline says whether failing requests are expected.
func (p *page) setOffline(offline bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offline = offline
}

// requireQuiet fails if the page complained about anything so far.
func (p *page) requireQuiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		p.t.Errorf("the console says: %s", problem)
	}
}

// do runs actions within the limit.
func (p *page) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// wait returns when an expression is truthy. The page looks itself, as an
// evaluated promise: chromedp.Poll would need the eval that the content policy
// of the dashboard forbids.
func (p *page) wait(what, expression string) {
	p.t.Helper()
	p.waitFor(waitLimit, what, expression)
}

func (p *page) waitFor(limit time.Duration, what, expression string) {
	p.t.Helper()
	script := fmt.Sprintf(`new Promise((resolve) => {
		const look = () => {
			let found = false;
			try { found = Boolean(%s); } catch { /* not there yet */ }
			if (found) resolve(true); else setTimeout(look, 50);
		};
		look();
	})`, expression)
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	_, err := runAcrossNavigation(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.requireQuiet()
		p.screenshot("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
		p.t.Fatalf("waited for %s: %v", what, err)
	}
}

// runAcrossNavigation runs an action again if the tab left the document in which it
// ran: a click on a link returns before the navigation begins, so that what
// follows it may still start in the old document.
func runAcrossNavigation[T any](ctx context.Context, action chromedp.Action[T]) (T, error) {
	for {
		value, err := chromedp.Run(ctx, action)
		if err == nil || !isNavigation(err) {
			return value, err
		}
		select {
		case <-ctx.Done():
			return value, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isNavigation reports whether a call failed because the document it was for is gone.
// The protocol has one code for all errors of a server, so their texts tell them apart.
func isNavigation(err error) bool {
	var answer *cdproto.Error
	if !errors.As(err, &answer) {
		return false
	}
	switch strings.TrimSuffix(answer.Message, ".") {
	case "Inspected target navigated or closed",
		"Execution context was destroyed",
		"Cannot find default execution context",
		"Not attached to an active page":
		return true
	}
	return false
}

// screenshot keeps what the tab shows as NAME.png.
func (p *page) screenshot(name string) {
	p.t.Helper()
	p.picture(name, chromedp.CaptureScreenshot())
}

// screenshotWhole keeps the whole page, also what is below the edge of the window.
func (p *page) screenshotWhole(name string) {
	p.t.Helper()
	p.picture(name, chromedp.FullScreenshot(100))
}

func (p *page) picture(name string, shoot chromedp.Action[[]byte]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	png, err := runAcrossNavigation(ctx, shoot)
	if err != nil {
		p.t.Errorf("screenshot %s: %v", name, err)
		return
	}
	path := filepath.Join(p.screenshots, name+".png")
	if err := os.MkdirAll(p.screenshots, 0o755); err != nil {
		p.t.Errorf("screenshot %s: %v", name, err)
		return
	}
	if err := os.WriteFile(path, png, 0o644); err != nil {
		p.t.Errorf("screenshot %s: %v", name, err)
		return
	}
	p.t.Logf("screenshot: %s", path)
}

// requireFits fails if the page is wider than the window.
func (p *page) requireFits() {
	p.t.Helper()
	widths := evaluate[[]int](p, `[document.documentElement.scrollWidth, document.documentElement.clientWidth]`)
	if widths[0] > widths[1] {
		p.t.Errorf("the page is %d px wide in a window of %d px", widths[0], widths[1])
	}
}
