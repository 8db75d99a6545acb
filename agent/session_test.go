package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/process"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// What runs without a server runs on; what ends meanwhile is told by the full report of the next session.
func TestReconnect(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	launch(t, config(t, s, sims))
	c := s.session()
	ends := wanted("ends/1/1", map[string]string{"run_for": "300ms", "exit_code": "3"})
	c.full(1, wanted("web/1/1", nil), ends)
	c.state("web/1/1", cluster.Running)
	c.state("ends/1/1", cluster.Running)
	c.end <- connect.NewError(connect.CodeUnavailable, errors.New("the server is stopping"))
	c.ended()
	c = s.session()
	if got := c.fullReport(); len(got) != 2 {
		t.Errorf("full report names %d tasks: %v", len(got), got)
	}
	ends.Observed = uint32(cluster.Running)
	c.full(2, wanted("web/1/1", nil), ends)
	if got := c.state("ends/1/1", cluster.Failed); got.GetExitCode() != 3 || got.GetErr() != "exit code 3" {
		t.Errorf("got %v", got)
	}
	if n := started(t, sims); n["web/1/1"] != 1 || n["ends/1/1"] != 1 {
		t.Errorf("starts: %v", n)
	}
}

// After a gap in the numbers of assignments nothing of that message is applied, and a new session begins.
func TestGap(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	launch(t, config(t, s, sims))
	c := s.session()
	c.full(1, wanted("web/1/1", nil))
	c.state("web/1/1", cluster.Running)
	c.number++
	c.change(2, wanted("web/2/2", nil))
	c.ended()
	for _, n := range []int{2, 3} { // the next session is as good as the first, and so is one after that
		c = s.session()
		if got := c.fullReport(); len(got) != n-1 {
			t.Errorf("full report: %v", got)
		}
		id := fmt.Sprintf("web/%d/2", n)
		c.full(uint64(n), wanted("web/1/1", nil), wanted("web/2/2", nil), wanted(id, nil))
		c.state(id, cluster.Running)
		if n == 2 {
			c.number++
			c.change(9)
			c.ended()
		}
	}
}

func TestFullSetInParts(t *testing.T) {
	s := newServer(t)
	launch(t, config(t, s, t.TempDir()))
	c := s.session()
	c.full(1, wanted("web/1/1", nil), wanted("web/2/1", nil))
	c.state("web/2/1", cluster.Running)
	c.assignments(&agentv1.Assignments{Full: true, More: true, Revision: 2, Upsert: []*agentv1.Assignment{wanted("web/1/1", nil)}})
	c.assignments(&agentv1.Assignments{Full: true, More: true, Revision: 2, Upsert: []*agentv1.Assignment{wanted("web/3/1", nil)}})
	c.assignments(&agentv1.Assignments{Full: true, Revision: 3, Upsert: []*agentv1.Assignment{wanted("web/4/1", nil)}})
	c.state("web/3/1", cluster.Running)
	c.state("web/4/1", cluster.Running)
	c.state("web/1/1", cluster.Running)
	c.await("the end of web/2/1", func() bool { return len(c.strays) == 0 && len(c.reports) > 1 })
}

// Nothing is stopped for a server of another cluster, nor for one whose state is older than what was seen.
func TestForeignAndStaleServers(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	launch(t, cfg)
	c := s.session()
	c.full(5, wanted("web/1/1", nil))
	c.state("web/1/1", cluster.Running)
	s.set(func(s *server) { s.cluster = "other" })
	c.end <- nil
	c = s.session()
	c.full(9)
	c.ended()
	if len(c.reports) != 0 {
		t.Errorf("a foreign server was told %v", c.reports)
	}
	s.set(func(s *server) { s.cluster = clusterID })
	c = s.session()
	for c.hello.GetSeenRevision() != 5 {
		c = s.session() // one that began before
	}
	c.full(4)
	c.ended()
	c = s.session()
	if got := c.fullReport()["web/1/1"]; cluster.ObservedState(got.GetState()) != cluster.Running {
		t.Errorf("reported as %v", got)
	}
	live, err := simDriver(t, sims).List(t.Context())
	if err != nil || len(live) != 1 || live[0].Status.State != driver.StateRunning {
		t.Errorf("list: %v, %v", live, err)
	}
}

// How often the agent speaks is the server's to say at any time.
func TestTheServerChangesThePeriod(t *testing.T) {
	s := newServer(t)
	launch(t, config(t, s, t.TempDir()))
	c := s.session()
	c.await("heartbeats", func() bool { return c.beats >= 3 })
	s.set(func(s *server) { s.later = time.Hour })
	var before, after int
	c.await("a look", func() bool { before = c.beats; return true })
	<-time.After(5 * s.beat)
	c.await("another", func() bool { after = c.beats; return true })
	if after > before+2 { // that were under way
		t.Errorf("%d heartbeats came of an agent that is to speak every hour", after-before)
	}
}

// A server that keeps the connection and says nothing is left.
func TestSilentServer(t *testing.T) {
	s := newServer(t)
	launch(t, config(t, s, t.TempDir()))
	c := s.session()
	c.await("heartbeats", func() bool { return c.beats >= 3 })
	s.set(func(s *server) { s.mute = true })
	c.ended()
	s.set(func(s *server) { s.mute = false })
	s.session()
}

// An agent waits for a server that is not there yet, and ends when it is told to meanwhile.
// late is a stream on which assignments wait that were sent long ago.
type late struct{ stream }

func (late) Receive() (*agentv1.FromServer, error) {
	return &agentv1.FromServer{Message: &agentv1.FromServer_Assignments{Assignments: &agentv1.Assignments{Number: 1}}}, nil
}

// An agent that stood still takes nothing of what was sent to it before: its node may be down by now, and its tasks elsewhere.
func TestWhatIsLateIsNotTaken(t *testing.T) {
	s := &session{stream: late{}, began: time.Now().Add(-7 * time.Second)} // and has no agent that could take anything
	if err := s.receive(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing came from the server") {
		t.Errorf("it takes what is late: %v", err)
	}
}

func TestNoServerAtFirst(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Server = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	a := launch(t, cfg)
	select {
	case err := <-a.done:
		t.Fatalf("gave up: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := a.end(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	launch(t, cfg)
	s.listen(cfg.Server)
	s.session()
}

// proxy stands between agent and server, and may take up everything that passes.
type proxy struct {
	address string

	mu     sync.Mutex // guards what follows
	frozen chan struct{}
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: l.Addr().String(), frozen: make(chan struct{})}
	p.thaw()
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		p.thaw()
		_ = l.Close()
		group.Wait()
	})
	pass := func(from, into net.Conn) {
		defer from.Close()
		defer into.Close()
		buf := make([]byte, 4096)
		for {
			n, err := from.Read(buf)
			p.wait()
			if err != nil || ctx.Err() != nil {
				return
			}
			if _, err := into.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	group.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			group.Go(func() { pass(in, out) })
			group.Go(func() { pass(out, in) })
		}
	})
	return p
}

// wait returns at once, or when what is frozen thaws.
func (p *proxy) wait() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	<-frozen
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.frozen:
	default:
		close(p.frozen)
	}
}

// A network that takes what is sent and brings nothing is noticed, and holds nothing back.
func TestDeadNetwork(t *testing.T) {
	s := newServer(t)
	cfg := config(t, s, t.TempDir())
	p := newProxy(t, s.address)
	cfg.Server = p.address
	a := launch(t, cfg)
	c := s.session()
	c.full(1, wanted("web/1/1", map[string]string{"run_for": "500ms"}))
	c.state("web/1/1", cluster.Running)
	p.freeze()
	<-time.After(2 * time.Second) // the agent tries new connections, which are as dead
	p.thaw()
	for {
		c = s.session()
		c.await("a report, or an end", func() bool { return c.complete || c.closed != nil })
		if c.complete {
			break
		}
	}
	if got := c.fullReport()["web/1/1"]; cluster.ObservedState(got.GetState()) != cluster.Complete {
		t.Errorf("reported as %v", got)
	}
	p.freeze()
	began := time.Now()
	if err := a.end(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if took := time.Since(began); took > farewell+3*time.Second {
		t.Errorf("it took %s to end", took)
	}
}

func TestManyTasks(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	a := launch(t, config(t, s, sims))
	c := s.session()
	var all []*agentv1.Assignment
	for i := range 2500 {
		all = append(all, wanted(fmt.Sprintf("web/%d/1", i), nil))
	}
	for part := range 5 {
		c.assignments(&agentv1.Assignments{Full: true, More: part < 4, Revision: 1, Upsert: all[500*part : 500*part+500]})
	}
	c.await("all run", func() bool {
		for _, a := range all {
			if cluster.ObservedState(c.status[a.GetTask()].GetState()) != cluster.Running {
				return false
			}
		}
		return true
	})
	c.end <- nil
	c = s.session()
	if got := c.fullReport(); len(got) != 2500 {
		t.Errorf("full report names %d tasks", len(got))
	}
	if len(c.reports) < 3 || !c.reports[0].GetMore() || c.reports[2].GetMore() {
		t.Errorf("it came in %d reports", len(c.reports))
	}
	if err := a.end(); err != nil {
		t.Error(err)
	}
}

func TestStopTasksOnExit(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	cfg.StopTasksOnExit = func() bool { return true }
	a := launch(t, cfg)
	c := s.session()
	c.full(1, wanted("web/1/1", map[string]string{"stop_delay": "100ms"}))
	c.state("web/1/1", cluster.Running)
	a.stop()
	c.ended()
	if got := cluster.ObservedState(c.status["web/1/1"].GetState()); got != cluster.Stopped {
		t.Errorf("the last that was reported is %s", got)
	}
	if err := a.result(); err != nil {
		t.Error(err)
	}
}

func TestSecondAgent(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	launch(t, cfg)
	s.session()
	began := time.Now()
	err := launch(t, cfg).result()
	var inUse *state.InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestOtherCluster(t *testing.T) {
	s := newServer(t)
	cfg := config(t, s, t.TempDir())
	a := launch(t, cfg)
	s.session()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	cfg.Token = newServer(t).token.Text()
	if err := launch(t, cfg).result(); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("got %v", err)
	}
}

func TestRenew(t *testing.T) {
	s := newServer(t)
	cfg := config(t, s, t.TempDir())
	var mu sync.Mutex
	now := time.Now()
	cfg.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	a := launch(t, cfg)
	c := s.session()
	before, err := os.ReadFile(filepath.Join(cfg.DataDir, CertificateFile))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	now = now.Add(61 * 24 * time.Hour)
	mu.Unlock()
	c.end <- nil
	s.session()
	for end := time.Now().Add(deadline); ; {
		s.mu.Lock()
		n := s.renewed
		s.mu.Unlock()
		after, err := os.ReadFile(filepath.Join(cfg.DataDir, CertificateFile))
		if n >= 1 && err == nil && string(after) != string(before) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("renewed %d times, %v", n, err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	launch(t, cfg)
	s.session() // the new certificate serves
}

func TestLogs(t *testing.T) {
	s := newServer(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, s, t.TempDir())
	dir := t.TempDir()
	d, err := process.New(process.Options{Dir: dir, Shim: []string{exe, "shim"}})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Drivers = []driver.Driver{d}
	cfg.StopTasksOnExit = func() bool { return true }
	launch(t, cfg)
	c := s.session()
	fifo := filepath.Join(dir, "go")
	a := wanted("talk/1/1", nil)
	a.Spec = specOf(cluster.TaskSpec{Driver: "process", Command: []string{
		"sh", "-c", `echo one; echo two >&2; echo three; while [ ! -e "$GO" ]; do sleep 0.05; done; echo four; exec sleep 1000`,
	}, Env: map[string]string{"GO": fifo}, Stop: cluster.StopSpec{Signal: "TERM", Grace: time.Second}})
	c.full(1, a)
	c.state("talk/1/1", cluster.Running)

	ask := func(n uint64, r *agentv1.LogRequest) {
		r.Request, r.Task = n, "talk/1/1"
		c.send(&agentv1.FromServer{Message: &agentv1.FromServer_LogRequest{LogRequest: r}})
	}
	output := func(n uint64) string {
		var out strings.Builder
		for _, l := range c.logs[n] {
			out.Write(l.GetData())
		}
		return out.String()
	}
	ended := func(n uint64) bool { return len(c.logs[n]) > 0 && c.logs[n][len(c.logs[n])-1].GetEnd() }
	ask(1, &agentv1.LogRequest{Stream: "stdout", Follow: true, Tail: -1})
	c.await("three", func() bool { return output(1) == "one\nthree\n" })
	ask(2, &agentv1.LogRequest{Stream: "stderr", Tail: -1})
	c.await("end", func() bool { return ended(2) && output(2) == "two\n" })
	ask(3, &agentv1.LogRequest{Stream: "stdout", Tail: 1})
	c.await("tail", func() bool { return ended(3) && output(3) == "three\n" })
	ask(7, &agentv1.LogRequest{Stream: "stdout", Follow: true, Tail: -1, WindowBytes: 10})
	c.await("what fits into the window", func() bool { return output(7) == "one\nthree\n" })
	ask(4, &agentv1.LogRequest{Follow: true, Tail: 0})
	ask(5, &agentv1.LogRequest{Stream: "nonsense", Tail: -1})
	c.await("refusal", func() bool { return ended(5) && strings.Contains(c.logs[5][0].GetErr(), "nonsense") })
	if err := os.WriteFile(fifo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.await("four", func() bool { return output(1) == "one\nthree\nfour\n" && output(4) == "four\n" })
	c.mu.Lock()
	if got := output(7); got != "one\nthree\n" {
		t.Errorf("beyond the window came %q", got)
	}
	c.mu.Unlock()
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_LogMore{LogMore: &agentv1.LogMore{Request: 7, Bytes: 10}}})
	c.await("what there is more room for", func() bool { return output(7) == "one\nthree\nfour\n" })
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_LogCancel{LogCancel: &agentv1.LogCancel{Request: 7}}})
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_LogCancel{LogCancel: &agentv1.LogCancel{Request: 1}}})
	c.change(2, unwanted("talk/1/1", 0, cluster.Running))
	c.state("talk/1/1", cluster.Stopped)
	c.await("the end of what is followed", func() bool { return ended(4) })
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_LogRequest{LogRequest: &agentv1.LogRequest{Request: 6, Task: "no/1/1", Tail: -1}}})
	c.await("unknown task", func() bool { return ended(6) && c.logs[6][0].GetErr() != "" })
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended(1) {
		t.Error("a cancelled request was ended once more")
	}
}

// TestProcesses runs real processes, and finds them again after the agent's restart.
func TestProcesses(t *testing.T) {
	s := newServer(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	newDriver := func() []driver.Driver {
		d, err := process.New(process.Options{Dir: dir, Shim: []string{exe, "shim"}})
		if err != nil {
			t.Fatal(err)
		}
		return []driver.Driver{d}
	}
	cfg := config(t, s, t.TempDir())
	cfg.Drivers = newDriver()
	a := launch(t, cfg)
	task := func(id, script string) *agentv1.Assignment {
		a := wanted(id, nil)
		a.Spec = specOf(cluster.TaskSpec{Driver: "process", Command: []string{"sh", "-c", script}, Stop: cluster.StopSpec{Signal: "TERM", Grace: time.Second}})
		return a
	}
	marks := t.TempDir()
	web := task("web/1/1", `echo x >> `+marks+`/starts; exec sleep 1000`)
	checked := task("checked/1/1", `exec sleep 1000`)
	checked.Spec.Health = specOf(cluster.TaskSpec{Health: &cluster.HealthSpec{
		Exec: []string{"test", "-e", marks + "/starts"}, Interval: 50 * time.Millisecond, Timeout: 5 * time.Second, Retries: 2,
	}}).GetHealth()
	c := s.session()
	c.full(1, web, checked, task("bad/1/1", "exit 3"))
	c.state("web/1/1", cluster.Running)
	c.state("bad/1/1", cluster.Failed)
	c.await("healthy", func() bool { return c.status["checked/1/1"].GetHealthy() })
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	cfg.Drivers = newDriver()
	cfg.StopTasksOnExit = func() bool { return true }
	launch(t, cfg)
	c = s.session()
	if got := c.fullReport(); len(got) != 3 || cluster.ObservedState(got["web/1/1"].GetState()) != cluster.Running {
		t.Errorf("after the restart: %v", got)
	}
	web.Observed, checked.Observed = uint32(cluster.Running), uint32(cluster.Running)
	c.full(2, web, checked)
	if text, err := os.ReadFile(filepath.Join(marks, "starts")); err != nil || string(text) != "x\n" {
		t.Errorf("starts: %q, %v", text, err)
	}
	if err := os.Remove(filepath.Join(marks, "starts")); err != nil {
		t.Fatal(err)
	}
	if got := c.state("checked/1/1", cluster.Failed); !strings.HasPrefix(got.GetErr(), "health check failed: test: exit status 1") {
		t.Errorf("got %v", got)
	}
	c.change(3, unwanted("web/1/1", -1, cluster.Running))
	if got := c.state("web/1/1", cluster.Stopped); got.GetExitCode() != 143 {
		t.Errorf("got %v", got)
	}
	c.remove(4, "web/1/1", "checked/1/1", "bad/1/1")
	for end := time.Now().Add(deadline); ; {
		list, err := cfg.Drivers[0].List(t.Context())
		if err == nil && len(list) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("left: %v, %v", list, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// An agent does not join with a certificate that is not valid, and says by which times.
func TestJoinWithAClockThatIsWrong(t *testing.T) {
	s := newServer(t)
	s.set(func(s *server) { s.ahead = -200 * 24 * time.Hour })
	cfg := config(t, s, t.TempDir())
	cfg.Log = hclog.NewNullLogger()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Run(t.Context())
	valid, now := time.Now().Add(-110*24*time.Hour).UTC().Format("2006-01-02"), time.Now().UTC().Format("2006-01-02")
	if err == nil || !strings.Contains(err.Error(), " to "+valid) || !strings.Contains(err.Error(), "the clock here shows "+now) {
		t.Errorf("it says: %v", err)
	}
}

// What an authority signs while its clock is ahead replaces what was there, and serves by the right clock as well.
func TestRenewFromAServerWhoseClockIsAhead(t *testing.T) {
	s := newServer(t)
	cfg := config(t, s, t.TempDir())
	a := launch(t, cfg)
	s.session()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	s.set(func(s *server) { s.ahead = 200 * 24 * time.Hour })
	due := time.Now().Add(61 * 24 * time.Hour)
	cfg.Now = func() time.Time { return due }
	a = launch(t, cfg)
	s.session()
	path := filepath.Join(cfg.DataDir, CertificateFile)
	for end := time.Now().Add(deadline); ; {
		pair, err := pki.LoadPair(path)
		if err == nil && pair.Certificate().NotAfter.After(time.Now().Add(200*24*time.Hour)) {
			if err := pair.InForce(time.Now()); err != nil {
				t.Error(err)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the certificate was not replaced: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
}
