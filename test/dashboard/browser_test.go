package dashboard

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// What the environment says: where the browser is, and where axe-core's script is.
const (
	browserEnv = "SETPOINT_TEST_BROWSER"
	axeEnv     = "SETPOINT_TEST_AXE"
)

// browser is a real one, with one page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex // guards what follows
	messages []string   // errors and warnings of the console
}

// newBrowser starts one. Without a browser the test is skipped.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv(browserEnv)
	if path == "" {
		t.Skip(browserEnv + " names no browser; .ci/dashboard installs one")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.WSURLReadTimeout(time.Minute))
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	b := &browser{t: t, ctx: ctx}
	b.size(1280, 900)
	console := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" {
				b.mu.Lock()
				b.messages = append(b.messages, m.String())
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		reading.Wait()
	})
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns what a script says.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return out
}

// until waits until a script says that something is true of the page.
func (b *browser) until(what, script string) {
	b.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+script+")"))
		switch {
		case err == nil && ok:
			return
		case time.Now().After(deadline) && err != nil:
			b.t.Fatalf("%s: not within 30 s: %v", what, err)
		case time.Now().After(deadline):
			b.t.Fatalf("%s: not within 30 s; the page says\n%s", what, eval[string](b, "document.body.innerText"))
		}
		b.do(chromedp.Sleep(100 * time.Millisecond)) // an error may be that of a page which is just left
	}
}

// click clicks on an element once it is there. That and the click are one step, since the page may replace the element at any time.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.until("there is "+selector, `(() => { const e = document.querySelector('`+selector+`'); e?.click(); return e })()`)
}

// says waits until an element's text contains something.
func (b *browser) says(selector, text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.until(selector+" says "+text, `document.querySelector('`+selector+`')?.innerText.includes(`+string(quoted)+`)`)
}

func (b *browser) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// scheme has pages be light or dark.
func (b *browser) scheme(word string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: word}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// open loads a page and waits until it is kept up to date.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.until(url+" is live", `document.body && !('live' in document.body.dataset) || document.getElementById('live')?.dataset.is === 'live'`)
}

// login opens a link that lets somebody in.
func (b *browser) login(link string) {
	b.t.Helper()
	b.do(chromedp.Navigate(link))
	b.until("logged in", `location.pathname === '/' && document.querySelector('.top')`)
}

// quiet fails the test if the console said something.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		b.t.Errorf("the console says %s", m)
	}
	b.messages = nil
}

// axe checks the page by axe-core: nothing serious.
func (b *browser) axe() {
	b.t.Helper()
	path := os.Getenv(axeEnv)
	if path == "" {
		return
	}
	source, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	eval[bool](b, string(source)+"; true")
	found := eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) =>
		v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.html + ' ' + (n.any[0]?.message ?? '')).join(' | ')))`)
	for _, f := range found {
		b.t.Errorf("%s: %s", eval[string](b, "location.pathname"), strings.TrimSpace(f))
	}
}
