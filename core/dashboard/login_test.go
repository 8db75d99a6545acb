package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// paths are one of each page.
var paths = []string{"/", "/stalls", "/jobs", "/jobs/web", "/nodes", "/nodes/n1", "/tasks/web/1/3", "/tasks/web/1", "/tasks/web/2/3/logs", "/plugins", "/events", "/jobs/web/do/scale", "/nodes/n1/do/drain", "/nothing"}

// fill makes a cluster of which each page has something to show.
func (w *world) fill() {
	stuck := waiting("web/1/3")
	w.set(9, node("a", "n1"), job("web", 2), slot("web", "1", nil), slot("web", "2", up), stuck, running("web/2/3", "a"), groupStall(stuck, "node.labels.disk == ssd"))
}

func TestNothingIsShownWithoutLogin(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.stranger()
	for _, path := range paths {
		if status, body := b.get(path); status != http.StatusUnauthorized || strings.Contains(body, "web") || strings.Contains(body, "n1") {
			t.Errorf("%s gave %d: %s", path, status, body)
		}
		if status, _, _ := b.post(path, nil); status != http.StatusUnauthorized && status != http.StatusMethodNotAllowed {
			t.Errorf("posting to %s gave %d", path, status)
		}
		req := b.request(http.MethodGet, path, nil)
		req.Header.Set("Accept", "text/event-stream")
		if status, _, _ := b.do(req); status != http.StatusUnauthorized {
			t.Errorf("the stream of %s gave %d", path, status)
		}
	}
}

func TestEveryPageIsShownToReaders(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleReader)
	for _, path := range paths {
		want := http.StatusOK
		switch {
		case strings.Contains(path, "/do/"):
			want = http.StatusForbidden
		case path == "/nothing":
			want = http.StatusNotFound
		}
		status, body, header := b.do(b.request(http.MethodGet, path, nil))
		if status != want {
			t.Errorf("%s gave %d, want %d: %s", path, status, want, body)
		}
		if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s has the headers %v", path, header)
		}
		if strings.Contains(body, "/do/") || strings.Contains(body, "style=") || strings.Contains(body, "onclick") {
			t.Errorf("%s has buttons, or something inline: %s", path, body)
		}
	}
	if _, body := b.get("/tasks/web/2/3/logs"); !strings.Contains(body, "hello &lt;b&gt;") {
		t.Errorf("the output is %s", body)
	}
}

func TestCodesServeOnceAndSoon(t *testing.T) {
	w := newWorld(t)
	code := w.code(pki.RoleReader)
	if status, _, _ := w.stranger().post("/login", url.Values{"code": {" https://s1:7481/login#" + code + "\n"}}); status != http.StatusSeeOther {
		t.Errorf("the first login gave %d", status)
	}
	if status, body, _ := w.stranger().post("/login", url.Values{"code": {code}}); status != http.StatusForbidden || !strings.Contains(body, "used already") {
		t.Errorf("the second login gave %d: %s", status, body)
	}
	late := w.code(pki.RoleReader)
	w.pass(inviteLifetime + time.Second)
	if status, _, _ := w.stranger().post("/login", url.Values{"code": {late}}); status != http.StatusForbidden {
		t.Errorf("a late login gave %d", status)
	}
	if status, _, _ := w.stranger().post("/login", url.Values{"code": {""}}); status != http.StatusForbidden {
		t.Errorf("a login without a code gave %d", status)
	}
}

func TestWhoIsLoggedInIsAskedBeforeHeBecomesSomebodyElse(t *testing.T) {
	w := newWorld(t)
	b := w.as(pki.RoleReader)
	code := w.code(pki.RoleOperator)
	status, body, _ := b.post("/login", url.Values{"code": {code}})
	if status != http.StatusOK || !strings.Contains(body, "logged in as <b>ann</b>") {
		t.Errorf("it gave %d: %s", status, body)
	}
	if status, _, _ := b.post("/login", url.Values{"code": {code}, "confirmed": {"yes"}}); status != http.StatusSeeOther {
		t.Errorf("confirmed it gave %d", status)
	}
	if _, body := b.get("/"); !strings.Contains(body, "operator") {
		t.Error("the role is not the new one")
	}
}

func TestSessionsEnd(t *testing.T) {
	w := newWorld(t)
	out := w.as(pki.RoleReader)
	if status, _, to := out.post("/logout", url.Values{"form": {out.form("/")}}); status != http.StatusSeeOther || to != "/login" {
		t.Errorf("logging out gave %d to %s", status, to)
	}
	idle, busy := w.as(pki.RoleReader), w.as(pki.RoleReader)
	w.pass(idleLifetime / 2)
	if status, _ := busy.get("/"); status != http.StatusOK {
		t.Errorf("a session in use gave %d", status)
	}
	w.pass(idleLifetime/2 + time.Second)
	for name, b := range map[string]*browser{"after logging out": out, "without use": idle} {
		if status, _ := b.get("/"); status != http.StatusUnauthorized {
			t.Errorf("%s it gave %d", name, status)
		}
	}
	for range 30 {
		busy.get("/")
		w.pass(idleLifetime / 2)
	}
	if status, _ := busy.get("/"); status != http.StatusUnauthorized {
		t.Errorf("after half a day it gave %d", status)
	}
}

// A session ends with the certificate by which it began, and with it what is sent to its pages and the links that were made with it.
func TestSessionsEndWithTheCertificate(t *testing.T) {
	w := newWorld(t)
	w.fill()
	ann := pki.Credential{Identity: pki.Identity{ClusterID: "c1", Role: pki.RoleReader, Name: "ann"}, Serial: "7", Expires: start.Add(time.Minute)}
	other := ann
	other.Serial, other.Expires = "8", start.Add(pki.Validity)
	expiring, staying := w.enter(w.codeFor(ann)), w.enter(w.codeFor(other))
	late := w.codeFor(ann)
	lines, closed := expiring.follow("/nodes")
	defer closed()
	w.pass(time.Minute)
	if status, _ := expiring.get("/"); status != http.StatusUnauthorized {
		t.Errorf("after its certificate expired it gave %d", status)
	}
	for lines.Scan() { // the stream ends
	}
	if status, _, _ := w.stranger().post("/login", url.Values{"code": {late}}); status != http.StatusForbidden {
		t.Errorf("a link of who has no certificate any more gave %d", status)
	}
	if status, _ := staying.get("/"); status != http.StatusOK {
		t.Errorf("another certificate of the same name gave %d", status)
	}

	lines, closed = staying.follow("/nodes")
	defer closed()
	w.mu.Lock()
	w.revoked = "8"
	w.mu.Unlock()
	w.d.Sweep()
	for lines.Scan() { // the stream ends
	}
	if status, _ := staying.get("/"); status != http.StatusUnauthorized {
		t.Errorf("after its certificate was revoked it gave %d", status)
	}
}

func TestCookie(t *testing.T) {
	w := newWorld(t)
	b := w.stranger()
	req := b.request(http.MethodPost, "/login", strings.NewReader(url.Values{"code": {w.code(pki.RoleReader)}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, _, header := b.do(req)
	got := header.Get("Set-Cookie")
	for _, want := range []string{"__Host-setpoint-c1=", "; Path=/;", "HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(got, want) {
			t.Errorf("the cookie is %s, want %s", got, want)
		}
	}
}

func TestOnlyPagesOfTheSessionChangeAnything(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleOperator)
	form := b.form("/nodes/n1")
	for name, change := range map[string]func(*http.Request){
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"an origin":    func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		req := b.request(http.MethodPost, "/nodes/n1/do/drain", strings.NewReader(url.Values{"form": {form}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		change(req)
		if status, _, _ := b.do(req); status != http.StatusForbidden {
			t.Errorf("%s gave %d", name, status)
		}
	}
	for _, wrong := range []string{"", "x", w.as(pki.RoleOperator).form("/")} {
		if status, _, _ := b.post("/nodes/n1/do/drain", url.Values{"form": {wrong}}); status != http.StatusForbidden {
			t.Errorf("the form %q gave %d", wrong, status)
		}
	}
	if done, _ := w.carried(); len(done) != 0 {
		t.Errorf("%v was carried out", done)
	}
}

func TestOperatorsActUnderTheirName(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleOperator)
	if _, body := b.get("/nodes/n1"); !strings.Contains(body, `href="/nodes/n1/do/drain"`) {
		t.Errorf("there is no button: %s", body)
	}
	status, _, to := b.post("/nodes/n1/do/drain", url.Values{"form": {b.form("/nodes/n1")}, "deadline": {"10m"}})
	if status != http.StatusSeeOther || to != "/nodes/n1" {
		t.Errorf("it gave %d to %s", status, to)
	}
	done, by := w.carried()
	want := engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain, DrainDeadline: 10 * time.Minute}
	if len(done) != 1 || by != "ann" {
		t.Fatalf("%v was carried out by %s", done, by)
	}
	if got, ok := done[0].(engine.SetAvailability); !ok || got.Nodes[0] != "n1" || got.Availability != want.Availability || got.DrainDeadline != want.DrainDeadline {
		t.Errorf("%+v was carried out, want %+v", done[0], want)
	}
	if log := w.log.String(); !strings.Contains(log, "call carried out") || !strings.Contains(log, "caller=ann") || !strings.Contains(log, "availability=drain") {
		t.Errorf("the log says %s", log)
	}
	if _, body := b.get("/nodes/n1"); !strings.Contains(body, "Drain: asked for.") {
		t.Error("the page does not say so")
	}
	if _, body := b.get("/nodes/n1"); strings.Contains(body, "Drain: asked for.") {
		t.Error("the page says so twice")
	}
}

func TestReadersAreRefusedByTheServer(t *testing.T) {
	w := newWorld(t)
	w.fill()
	b := w.as(pki.RoleReader)
	status, body, _ := b.post("/nodes/n1/do/drain", url.Values{"form": {b.form("/nodes/n1")}})
	if done, _ := w.carried(); status != http.StatusForbidden || !strings.Contains(body, "this needs operator") || len(done) != 0 {
		t.Errorf("it gave %d, and %v was carried out: %s", status, done, body)
	}
}
