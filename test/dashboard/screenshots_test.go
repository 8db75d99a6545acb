package dashboard

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/setpointd/setpoint/core/pki"
)

var write = flag.Bool("write", false, "write docs/screenshots")

// TestScreenshots writes the pictures of the documentation, if it is asked to.
func TestScreenshots(t *testing.T) {
	if !*write {
		t.Skip("without -write nothing is written; make screenshots does")
	}
	b := newBrowser(t)
	m := serve(t, busy(600))
	b.login(m.link(pki.RoleOperator))
	for _, shot := range []struct {
		name, path, scheme string
		width, height      int64
	}{
		{"overview-light", "/", "light", 1280, 900},
		{"overview-dark", "/", "dark", 1280, 900},
		{"overview-phone", "/", "light", 390, 844},
		{"job-light", "/jobs/search", "light", 1280, 800},
		{"task-light", "/tasks/train/1", "light", 1280, 800},
		{"nodes-light", "/nodes", "light", 1280, 900},
		{"nodes-dark-phone", "/nodes", "dark", 390, 844},
	} {
		b.scheme(shot.scheme)
		b.size(shot.width, shot.height)
		b.open(m.url + shot.path)
		b.do(chromedp.Sleep(1_500_000_000))
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("../../docs/screenshots", shot.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.quiet()
}
