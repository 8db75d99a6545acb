package dashboard

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// world is a dashboard in front of a real API, whose engine shows the state that a test made.
type world struct {
	t      testing.TB
	d      *Dashboard
	server *httptest.Server
	events *api.Events
	log    *strings.Builder // of API and dashboard

	mu      sync.Mutex // guards what follows
	state   *engine.State
	now     time.Time
	done    []engine.Op // commands that were carried out
	by      string      // whose the latest was
	revoked string      // serial number of the certificate that serves no more
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, now: start, log: new(strings.Builder)}
	w.events = api.NewEvents(1)
	w.set(1)
	log := hclog.New(&hclog.LoggerOptions{Output: w.log, Level: hclog.Info})
	a, err := api.New(api.Options{Engine: w, Plugins: none{}, Logs: none{}, Tokens: none{}, Signer: none{}, Events: w.events, Log: log, Now: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	w.d, err = New(Options{
		View: w.View, Name: "s1", Log: log, URL: "https://s1:7481", Now: w.clock, Stall: 200 * time.Millisecond,
		Inspect: func(context.Context) (engine.InspectResult, error) { return w.inspect(), nil },
		Why: func(_ context.Context, task cluster.TaskID) (engine.WhyResult, error) {
			return engine.WhyResult{Sentence: "no node can run it. Nearest: n1. Clears when: a node joins.", Nearest: "n1", Clears: "a node joins"}, nil
		},
		Client: func(who pki.Credential) apiv1connect.ApiServiceClient { return a.ClientFor(who) },
		Serves: func(who pki.Credential) bool { w.mu.Lock(); defer w.mu.Unlock(); return w.revoked != who.Serial },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewTLSServer(w.d.Handler())
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.events.Run(ctx) })
	running.Go(func() { _ = w.d.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.server.Close()
	})
	return w
}

// start is when tests begin.
var start = time.Unix(1_700_000_000, 0)

// moment returns a moment of both clocks, so long after the start.
func moment(d time.Duration) cluster.Time {
	return cluster.Time{Engine: d, Wall: start.Add(d).UnixNano()}
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) pass(d time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); w.now = w.now.Add(d) }

// set replaces the state.
func (w *world) set(revision cluster.Revision, records ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = engine.Assemble("c1", revision, moment(w.now.Sub(start)), records...)
	w.events.Committed(engine.Turn{State: w.state})
}

// commit replaces the state by a turn that put a record.
func (w *world) commit(c cluster.Change, records ...any) {
	before := w.View()
	w.set(before.Revision+1, records...)
	w.d.Committed(engine.Turn{Before: before, State: w.View(), Changes: []engine.Authored{{By: c.Owner(), Change: c}}})
}

func (w *world) View() *engine.State { w.mu.Lock(); defer w.mu.Unlock(); return w.state }

func (w *world) inspect() engine.InspectResult {
	out := engine.InspectResult{State: w.View()}
	for n := range out.State.Nodes() {
		out.Nodes = append(out.Nodes, engine.NodeUse{Node: n.ID, Reserved: cluster.Resources{MilliCPU: 1000}, Free: cluster.Resources{MilliCPU: 3000}, Tasks: 1})
	}
	return out
}

// Do implements api.Engine: it notes what is asked.
func (w *world) Do(_ context.Context, by string, op engine.Op) (any, error) {
	switch op := op.(type) {
	case engine.Inspect:
		return w.inspect(), nil
	case engine.Why:
		return engine.WhyResult{Task: w.View().Task(op.Task), Sentence: "no node can run it", Nodes: []engine.WhyNode{
			{Node: "a", Name: "n1", Reasons: []engine.WhyReason{{Source: "core", Code: cluster.CodeInsufficientResources, Detail: "lacks cpu (want 8, free 3)"}}},
		}}, nil
	case engine.Foresee:
		return nil, &engine.OpError{Kind: engine.Refused, Message: "nothing is foreseen here"}
	}
	w.mu.Lock()
	w.done, w.by = append(w.done, op), by
	state := w.state
	w.mu.Unlock()
	switch op := op.(type) {
	case engine.SetAvailability:
		return []engine.NodeResult{{Node: state.NodeNamed(op.Nodes[0]), Changed: true}}, nil
	case engine.ControlUpdate:
		return engine.JobResult{Job: state.Job(op.Job), Changed: true}, nil
	}
	return nil, &engine.OpError{Kind: engine.Refused, Message: "not here"}
}

// carried returns what was carried out, and by whom the latest.
func (w *world) carried() ([]engine.Op, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done, w.by
}

// none stands for the parts of an API that these tests do without.
type none struct{}

func (none) Plugins() []api.Plugin                                       { return nil }
func (none) CheckJob(context.Context, cluster.JobSpec) []cluster.Problem { return nil }
func (none) Create(context.Context, pki.Role, string, time.Duration) (t pki.Token, s pki.StoredToken, err error) {
	return t, s, errors.ErrUnsupported
}
func (none) List(context.Context) ([]pki.StoredToken, error) { return nil, nil }
func (none) Revoke(context.Context, pki.TokenHash) error     { return errors.ErrUnsupported }
func (none) Find(context.Context, pki.Token) (pki.StoredToken, error) {
	return pki.StoredToken{}, errors.ErrUnsupported
}

func (none) Sign(time.Time, pki.Identity, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// OpenLogs gives what was printed, and to who follows a little more, in two pieces of which the first ends within a character.
func (none) OpenLogs(_ context.Context, _ cluster.NodeID, ask *agentv1.LogRequest) (io.ReadCloser, error) {
	printed := io.Reader(strings.NewReader("hello <b>\n"))
	if ask.GetFollow() {
		printed = io.MultiReader(printed, strings.NewReader("then \xe2\x82"), strings.NewReader("\xac\n"))
	}
	return io.NopCloser(printed), nil
}

func (none) Trial(context.Context, string, []engine.Class, []engine.IndexedNode) ([]engine.ClassVerdict, error) {
	return nil, nil
}

// browser is somebody's.
type browser struct {
	w *world
	c *http.Client
}

// stranger returns a browser of somebody who is not logged in.
func (w *world) stranger() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := *w.server.Client()
	c.Jar = jar
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{w, &c}
}

// as returns a browser of somebody who is logged in with a role.
func (w *world) as(role pki.Role) *browser {
	w.t.Helper()
	return w.enter(w.code(role))
}

// enter returns the browser of somebody who logged in with a code.
func (w *world) enter(code string) *browser {
	w.t.Helper()
	b := w.stranger()
	if status, _, to := b.post("/login", url.Values{"code": {code}}); status != http.StatusSeeOther || to != "/" {
		w.t.Fatalf("the login gave %d to %q", status, to)
	}
	return b
}

// code returns one that lets somebody in with a role.
func (w *world) code(role pki.Role) string {
	w.t.Helper()
	return w.codeFor(pki.Credential{Identity: pki.Identity{ClusterID: "c1", Role: role, Name: "ann"}, Serial: "1", Expires: w.clock().Add(pki.Validity)})
}

// codeFor returns one that lets somebody in who is known by a credential.
func (w *world) codeFor(who pki.Credential) string {
	w.t.Helper()
	link, _, err := w.d.Invite(who)
	if err != nil {
		w.t.Fatal(err)
	}
	_, code, _ := strings.Cut(link, "#")
	return code
}

func (b *browser) do(req *http.Request) (status int, body string, header http.Header) {
	b.w.t.Helper()
	res, err := b.c.Do(req)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

func (b *browser) request(method, path string, body io.Reader) *http.Request {
	b.w.t.Helper()
	req, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.server.URL+path, body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return req
}

func (b *browser) get(path string) (status int, body string) {
	b.w.t.Helper()
	status, body, _ = b.do(b.request(http.MethodGet, path, nil))
	return status, body
}

func (b *browser) post(path string, form url.Values) (status int, body, location string) {
	b.w.t.Helper()
	req := b.request(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, body, header := b.do(req)
	return status, body, header.Get("Location")
}

// form returns what the forms of a page carry.
func (b *browser) form(path string) string {
	b.w.t.Helper()
	_, body := b.get(path)
	found := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(body)
	if found == nil {
		b.w.t.Fatalf("%s has no form", path)
	}
	return found[1]
}

// follow opens a page's stream of changes.
func (b *browser) follow(path string) (lines *bufio.Scanner, closed func()) {
	b.w.t.Helper()
	req := b.request(http.MethodGet, path, nil)
	req.Header.Set("Accept", "text/event-stream")
	res, err := b.c.Do(req)
	if err != nil {
		b.w.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		b.w.t.Fatalf("the stream of %s gave %s", path, res.Status)
	}
	lines = bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	return lines, func() { res.Body.Close() }
}

// until reads a stream to a line that has a text.
func until(t *testing.T, lines *bufio.Scanner, text string) string {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	t.Fatalf("the stream ended without %q: %v", text, lines.Err())
	return ""
}
