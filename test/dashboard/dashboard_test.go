package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDashboard has one person look at a cluster: the first view; a stall that comes and goes while he looks; a drain that he begins and watches to its end; and every
// page, as those see it who do not see it, light and dark and on a phone.
func TestDashboard(t *testing.T) {
	b := newBrowser(t)
	c := start(t)
	c.job("web", 6, "")
	b.do(chromedp.Navigate(c.url + "/jobs"))
	b.until("nothing is shown without login", `document.getElementById('login') && !document.body.innerText.includes('web')`)
	b.messages = nil // the browser says of each page that it gave 401
	b.login(c.link())
	b.says("#stalls", "Nothing waits.")
	b.says("#jobs", "6 of 6")
	b.says("#live", "live")

	c.job("picky", 2, `  constraints = ["node.labels.disk == ssd"]`)
	b.says("#stalls", "2 things wait")
	b.says("#stalls", "node.labels.disk == ssd")
	b.says("#stalled", "2")
	c.run("node", "label", "n2", "disk=ssd")
	b.says("#stalls", "Nothing waits.")
	b.says("#stalled", "0")
	b.quiet()

	b.open(c.url + "/nodes/n2")
	b.click(`a[href="/nodes/n2/do/drain"]`)
	b.says("main", "What would follow")
	b.says("main", "would stall: constraint")
	b.click("button.do")
	b.says(".note", "Drain: asked for.")
	b.says("#node", "draining")
	c.run("node", "label", "n1", "disk=ssd") // now there is where the picky ones can go
	b.says("#node", "Drained.")
	b.says("#tasks", "No task now.")
	b.quiet()

	c.job("picky", 3, `  constraints = ["node.labels.disk == none"]`)
	b.open(c.url + "/")
	b.says("#stalls", "node.labels.disk == none")
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, path := range []string{
			"/", "/stalls", "/jobs", "/jobs/web", "/jobs/web/do/scale?count=7", "/nodes", "/nodes/n1", "/tasks/web/1", "/tasks/picky/3", "/plugins", "/plugins/constraint", "/events",
		} {
			b.open(c.url + path)
			b.axe()
		}
	}
	b.size(390, 844)
	for _, path := range []string{"/", "/jobs/web", "/nodes", "/tasks/picky/3"} {
		b.open(c.url + path)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 390 {
			t.Errorf("%s is %d pixels wide on a phone of 390", path, wide)
		}
	}
	b.quiet()

	// What a task prints is read as it prints it, and that it ended.
	c.file("clock", "job \"clock\" {\n  task {\n    driver  = \"process\"\n    command = [\"/bin/sh\", \"-c\", \"echo begins; while sleep 0.2; do echo tick; done\"]\n  }\n}\n")
	b.open(c.url + "/tasks/clock/1")
	b.says("#task", "running")
	b.click(`a[href$="/logs"]`)
	b.says("#output", "begins")
	b.says("#output", "tick\ntick\ntick\ntick")
	b.axe()
	c.run("job", "stop", "clock")
	b.says("#live", "the output has ended")
	b.quiet()

	// Keys lead from view to view, and down a list.
	b.size(1280, 900)
	b.open(c.url + "/")
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("n"))
	b.until("the nodes are there", `location.pathname === '/nodes' && document.getElementById('live')?.dataset.is === 'live'`)
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"))
	b.until("the second node is there", `location.pathname === '/nodes/n2'`)
	b.click(`form[action="/logout"] button`)
	b.until("logged out", `location.pathname === '/login'`)
	b.quiet()
}
