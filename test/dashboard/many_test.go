package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// TestManyNodes looks at 5,000 nodes: the page is small, shows at once what changes, and never keeps its reader waiting.
func TestManyNodes(t *testing.T) {
	b := newBrowser(t)
	records := busy(5000)
	m := serve(t, records)
	b.login(m.link(pki.RoleReader))
	b.open(m.url + "/nodes")
	if n := eval[int](b, "document.querySelectorAll('*').length"); n > 3000 {
		t.Errorf("the page has %d elements", n)
	}
	eval[bool](b, `window.longest = 0, new PerformanceObserver((l) => l.getEntries().forEach((e) => longest = Math.max(longest, e.duration))).observe({type: 'longtask', buffered: true}), true`)
	if text := eval[string](b, "document.querySelector('main').innerText"); eval[bool](b, `document.querySelector('a[href*="/do/"]') !== null`) {
		t.Errorf("a reader sees buttons: %s", text)
	}
	before := eval[string](b, `document.querySelector('#nodes-0 svg').getAttribute('aria-label')`)
	gone := *records[0].(*cluster.Node)
	gone.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: ago(0)}
	records[0] = &gone
	m.set(3, records)
	b.until("the first block shows the node that is down", `document.querySelector('#nodes-0 svg').getAttribute('aria-label') !== "`+before+`" && document.querySelector('#nodes-0 path.mark.is-down')`)
	b.do(chromedp.Focus("node-map"), chromedp.KeyEvent(kb.ArrowDown))
	b.says("node-map output", "n11 · ready")
	b.do(chromedp.KeyEvent("\r"))
	b.until("the node is there", `location.pathname === '/nodes/n11'`)
	b.open(m.url + "/nodes?state=down&q=zone%3Da")
	b.says("#nodes", "n1")
	b.open(m.url + "/")
	b.says("#stalls", "13 things wait")
	longest := eval[float64](b, `new Promise((done) => { let n = 0; new PerformanceObserver((l) => l.getEntries().forEach((e) => n = Math.max(n, e.duration))).observe({type: 'longtask', buffered: true}); setTimeout(() => done(n), 2500) })`)
	t.Logf("the page is busy for %.0f ms at the longest", longest)
	if longest > 1500 {
		t.Errorf("the page is busy for %.0f ms on end", longest)
	}
	b.quiet()
}
