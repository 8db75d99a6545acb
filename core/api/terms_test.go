package api_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
	"github.com/setpointd/setpoint/test/apiserver"
)

// real is a client of a real server, which stop stops.
func real(t *testing.T, dir string, nodes int, role pki.Role) (c *client.Client, stop func()) {
	t.Helper()
	s, err := apiserver.Start(apiserver.Options{Dir: dir, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = s.Client(role, "ann"); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		c.Close()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return c, stop
}

// webJob is a job that nodes of apiserver run.
func webJob(count int64) *setpointv1.JobSpec {
	return &setpointv1.JobSpec{Name: "web", Count: count, Task: &setpointv1.TaskSpec{Driver: "sim", Command: []string{"/srv/web"}}}
}

// with makes a request with a header.
func withHeader[T any](m *T, key, value string) *connect.Request[T] {
	req := connect.NewRequest(m)
	req.Header().Set(key, value)
	return req
}

func requireCode(t *testing.T, err error, want api.Code) *apiv1.ErrorDetail {
	t.Helper()
	d := client.Detail(err)
	if api.Code(d.GetCode()) != want {
		t.Fatalf("got %v (%v), want the code %s", err, d, want)
	}
	if known := api.Codes()[want]; !slices.Contains(known, connect.CodeOf(err)) {
		t.Errorf("%s comes as %v, the list says %v", want, connect.CodeOf(err), known)
	}
	return d
}

// TestKeyAcrossARestart has a command whose answer was lost asked again, before and after the server was started again, and once its job is gone.
func TestKeyAcrossARestart(t *testing.T) {
	dir := t.TempDir()
	c, stop := real(t, dir, 2, pki.RoleOperator)
	ctx := t.Context()
	run := func(c *client.Client) *connect.Response[apiv1.JobResponse] {
		t.Helper()
		res, err := c.RunJob(ctx, withHeader(&apiv1.RunJobRequest{Spec: webJob(2)}, api.HeaderKey, "k-1"))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := run(c)
	if !first.Msg.GetChanged() || first.Msg.GetVersion() != 1 || first.Header().Get(api.HeaderAgain) != "" {
		t.Fatalf("the first answer is %v %v", first.Msg, first.Header())
	}
	if _, err := c.ScaleJob(ctx, connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 4})); err != nil {
		t.Fatal(err)
	}
	check := func(c *client.Client, when string, version uint64) {
		t.Helper()
		again := run(c)
		if !again.Msg.GetChanged() || again.Msg.GetVersion() != 1 || again.Header().Get(api.HeaderAgain) != "true" || again.Msg.GetJob().GetVersion() != version {
			t.Errorf("%s: the answer is %v %v", when, again.Msg, again.Header())
		}
	}
	check(c, "at once", 2)
	stop()
	c, _ = real(t, dir, 2, pki.RoleOperator)
	check(c, "after a restart", 2)
	if job, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: "web"})); err != nil || job.Msg.GetJob().GetSpec().GetCount() != 4 {
		t.Errorf("the job is %v, %v; what was asked again was carried out again", job, err)
	}
	if _, err := c.RemoveJob(ctx, connect.NewRequest(&apiv1.RemoveJobRequest{Job: "web"})); err != nil {
		t.Fatal(err)
	}
	check(c, "without the job", 1)
	// Another command under the key, and other terms.
	_, err := c.RunJob(ctx, withHeader(&apiv1.RunJobRequest{Spec: webJob(3)}, api.HeaderKey, "k-1"))
	requireCode(t, err, api.CodeKeyReused)
	_, err = c.StopJob(ctx, withHeader(&apiv1.StopJobRequest{Job: "web"}, api.HeaderKey, "k-1"))
	requireCode(t, err, api.CodeKeyReused)
}

// TestEveryKeyedCallAnswersAgain has each call that takes a key made twice under one.
func TestEveryKeyedCallAnswersAgain(t *testing.T) {
	c, _ := real(t, t.TempDir(), 3, pki.RoleOperator)
	ctx := t.Context()
	job := func(res *connect.Response[apiv1.JobResponse], err error) (http.Header, string, error) {
		if err != nil {
			return nil, "", err
		}
		return res.Header(), res.Msg.GetJob().GetName(), nil
	}
	for _, call := range []struct {
		name string
		call func(key string) (h http.Header, about string, err error)
		want string
	}{
		{"RunJob", func(k string) (http.Header, string, error) {
			return job(c.RunJob(ctx, withHeader(&apiv1.RunJobRequest{Spec: webJob(1)}, api.HeaderKey, k)))
		}, "web"},
		{"ScaleJob", func(k string) (http.Header, string, error) {
			return job(c.ScaleJob(ctx, withHeader(&apiv1.ScaleJobRequest{Job: "web", Count: 2}, api.HeaderKey, k)))
		}, "web"},
		{"ControlUpdate", func(k string) (http.Header, string, error) {
			return job(c.ControlUpdate(ctx, withHeader(&apiv1.ControlUpdateRequest{Job: "web", Action: "pause"}, api.HeaderKey, k)))
		}, "refused"},
		{"RollbackJob", func(k string) (http.Header, string, error) {
			return job(c.RollbackJob(ctx, withHeader(&apiv1.RollbackJobRequest{Job: "web", To: 1}, api.HeaderKey, k)))
		}, "web"},
		{"RestartJob", func(k string) (http.Header, string, error) {
			return job(c.RestartJob(ctx, withHeader(&apiv1.RestartJobRequest{Job: "web"}, api.HeaderKey, k)))
		}, "web"},
		{"RebalanceJob", func(k string) (http.Header, string, error) {
			return job(c.RebalanceJob(ctx, withHeader(&apiv1.RebalanceJobRequest{Job: "web"}, api.HeaderKey, k)))
		}, "web"},
		{"StopTask", func(k string) (http.Header, string, error) {
			res, err := c.StopTask(ctx, withHeader(&apiv1.StopTaskRequest{Task: "web/1"}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), res.Msg.GetTask().GetSlot(), nil
		}, "1"},
		{"StopJob", func(k string) (http.Header, string, error) {
			return job(c.StopJob(ctx, withHeader(&apiv1.StopJobRequest{Job: "web"}, api.HeaderKey, k)))
		}, "web"},
		{"StartJob", func(k string) (http.Header, string, error) {
			return job(c.StartJob(ctx, withHeader(&apiv1.StartJobRequest{Job: "web"}, api.HeaderKey, k)))
		}, "web"},
		{"LabelNode", func(k string) (http.Header, string, error) {
			res, err := c.LabelNode(ctx, withHeader(&apiv1.LabelNodeRequest{Node: "n3", Set: map[string]string{"a": "b"}}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), res.Msg.GetNode().GetName(), nil
		}, "n3"},
		{"SetAvailability", func(k string) (http.Header, string, error) {
			res, err := c.SetAvailability(ctx, withHeader(&apiv1.SetAvailabilityRequest{Nodes: []string{"n1", "n3"}, Availability: "pause"}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), res.Msg.GetNodes()[0].GetNode().GetName() + res.Msg.GetNodes()[1].GetNode().GetName(), nil
		}, "n1n3"},
		{"ConfirmDown", func(k string) (http.Header, string, error) {
			res, err := c.ConfirmDown(ctx, withHeader(&apiv1.ConfirmDownRequest{}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), "", nil
		}, ""},
		{"DecommissionNode", func(k string) (http.Header, string, error) {
			res, err := c.DecommissionNode(ctx, withHeader(&apiv1.DecommissionNodeRequest{Node: "n3", Force: true}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), res.Msg.GetNode().GetName(), nil
		}, "n3"},
		{"RemoveNode", func(k string) (http.Header, string, error) {
			res, err := c.RemoveNode(ctx, withHeader(&apiv1.RemoveNodeRequest{Node: "n3"}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), "", nil
		}, ""},
		{"ConfirmPlugin", func(k string) (http.Header, string, error) {
			_, err := c.ConfirmPlugin(ctx, withHeader(&apiv1.ConfirmPluginRequest{Plugin: "none"}, api.HeaderKey, k))
			return nil, "", err
		}, "refused"},
		{"RemoveJob", func(k string) (http.Header, string, error) {
			res, err := c.RemoveJob(ctx, withHeader(&apiv1.RemoveJobRequest{Job: "web"}, api.HeaderKey, k))
			if err != nil {
				return nil, "", err
			}
			return res.Header(), "", nil
		}, ""},
	} {
		h, about, err := call.call("key-" + call.name)
		if call.want == "refused" {
			if _, _, again := call.call("key-" + call.name); err == nil || again == nil || again.Error() != err.Error() {
				t.Errorf("%s is refused with %v, and then with %v", call.name, err, again)
			}
			continue
		}
		if err != nil || about != call.want || h.Get(api.HeaderAgain) != "" {
			t.Errorf("%s: %q %v %v", call.name, about, h, err)
			continue
		}
		if h, about, err := call.call("key-" + call.name); err != nil || about != call.want || h.Get(api.HeaderAgain) != "true" {
			t.Errorf("%s again: %q %v %v", call.name, about, h, err)
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	c, _ := real(t, t.TempDir(), 0, pki.RoleAdmin)
	for _, key := range []string{" ", "a/b", "ä", strings.Repeat("x", 129)} {
		_, err := c.RunJob(t.Context(), withHeader(&apiv1.RunJobRequest{Spec: webJob(1)}, api.HeaderKey, key))
		if d := requireCode(t, err, api.CodeInvalid); d.GetProblems()[0].GetPath() != api.HeaderKey {
			t.Errorf("%q: %v", key, d)
		}
	}
	if _, err := c.RunJob(t.Context(), withHeader(&apiv1.RunJobRequest{Spec: webJob(1)}, api.HeaderKey, strings.Repeat("x", 128))); err != nil {
		t.Errorf("with a key of 128 letters: %v", err)
	}
	_, err := c.CreateToken(t.Context(), withHeader(&apiv1.CreateTokenRequest{}, api.HeaderKey, "k1"))
	requireCode(t, err, api.CodeInvalid)
	// Reading is as good as done once; a key does no harm.
	if _, err := c.GetStatus(t.Context(), withHeader(&apiv1.GetStatusRequest{}, api.HeaderKey, "k1")); err != nil {
		t.Errorf("with a read: %v", err)
	}
}

func TestIfMatch(t *testing.T) {
	c, _ := real(t, t.TempDir(), 1, pki.RoleOperator)
	ctx := t.Context()
	made, err := c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: webJob(1)}))
	if err != nil {
		t.Fatal(err)
	}
	if tag := made.Header().Get(api.HeaderETag); tag != `"1"` {
		t.Errorf("the ETag is %s", tag)
	}
	scale := func(count int64, match string, field uint64) (*connect.Response[apiv1.JobResponse], error) {
		return c.ScaleJob(ctx, withHeader(&apiv1.ScaleJobRequest{Job: "web", Count: count, IfVersion: field}, api.HeaderIfMatch, match))
	}
	if res, err := scale(2, `"1"`, 0); err != nil || res.Header().Get(api.HeaderETag) != `"2"` {
		t.Fatalf("at its version: %v, %v", res, err)
	}
	_, err = scale(3, `"1"`, 0)
	if d := requireCode(t, err, api.CodeConflict); d.GetHint() == "" {
		t.Error("the conflict has no hint")
	}
	if got := new(connect.Error); !errors.As(err, &got) || got.Message() != "job web is at version 2, not 1" {
		t.Errorf("the conflict says %v", err)
	}
	if _, err := scale(4, "*", 0); err != nil {
		t.Errorf("*: %v", err)
	}
	if _, err := scale(5, "3", 3); err != nil {
		t.Errorf("the same in field and header, unquoted: %v", err)
	}
	for _, bad := range []string{`W/"1"`, "x", "0", ""} {
		_, err := scale(6, bad, 0)
		requireCode(t, err, api.CodeInvalid)
	}
	_, err = scale(6, "3", 4)
	requireCode(t, err, api.CodeInvalid)
	_, err = c.StopTask(ctx, withHeader(&apiv1.StopTaskRequest{Task: "web/1"}, api.HeaderIfMatch, "3"))
	requireCode(t, err, api.CodeInvalid)
	got, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: "web", Fields: &fieldmaskpb.FieldMask{Paths: []string{"name"}}}))
	if err != nil || got.Header().Get(api.HeaderETag) != `"4"` || got.Msg.GetJob().GetVersion() != 0 || got.Msg.GetJob().GetName() != "web" {
		t.Errorf("read: %v, %v", got, err)
	}
}

func TestFields(t *testing.T) {
	c, _ := real(t, t.TempDir(), 2, pki.RoleReader)
	ctx := t.Context()
	mask := func(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
	list, err := c.ListNodes(ctx, connect.NewRequest(&apiv1.ListNodesRequest{Fields: mask("name", "capacity.milli_cpu", "description.drivers")}))
	if err != nil {
		t.Fatal(err)
	}
	if n := list.Msg.GetNodes(); len(n) != 2 || n[0].GetName() != "n1" || n[0].GetId() != "" || n[0].GetCapacity().GetMilliCpu() != 4000 ||
		n[0].GetCapacity().GetMemoryBytes() != 0 || len(n[0].GetDescription().GetDrivers()) != 2 || n[0].GetDescription().GetCapacity() != nil || list.Msg.GetRevision() == 0 {
		t.Errorf("the list is %v", list.Msg)
	}
	// Of a whole and a part of it the whole counts, in either order.
	for _, paths := range [][]string{{"capacity", "capacity.milli_cpu"}, {"capacity.milli_cpu", "capacity"}} {
		one, err := c.GetNode(ctx, connect.NewRequest(&apiv1.GetNodeRequest{Node: "n1", Fields: mask(paths...)}))
		if err != nil || one.Msg.GetNode().GetCapacity().GetMemoryBytes() == 0 || one.Msg.GetNode().GetName() != "" {
			t.Errorf("%v: %v, %v", paths, one, err)
		}
	}
	_, err = c.ListNodes(ctx, connect.NewRequest(&apiv1.ListNodesRequest{Fields: mask("nam", "capacity.cpu", "labels.disk", "state")}))
	d := requireCode(t, err, api.CodeInvalid)
	if len(d.GetProblems()) != 3 || d.GetProblems()[0].GetSummary() != `There is no field "nam"` || d.GetProblems()[2].GetSummary() != "labels has no fields" {
		t.Errorf("the problems are %v", d.GetProblems())
	}
}

// What is refused has to be said for each field. Of a request that names more of them than anybody has use for that is not done.
func TestTooManyFields(t *testing.T) {
	c, _ := real(t, t.TempDir(), 1, pki.RoleReader)
	ask := func(n int) error {
		_, err := c.ListNodes(t.Context(), connect.NewRequest(&apiv1.ListNodesRequest{Fields: &fieldmaskpb.FieldMask{Paths: slices.Repeat([]string{"nam"}, n)}}))
		return err
	}
	if d := requireCode(t, ask(500), api.CodeInvalid); len(d.GetProblems()) != 500 {
		t.Errorf("of 500 fields it said %d problems", len(d.GetProblems()))
	}
	d := requireCode(t, ask(501), api.CodeInvalid)
	if len(d.GetProblems()) != 1 || d.GetProblems()[0].GetSummary() != "Too many fields" {
		t.Errorf("of 501 fields it said %v", d.GetProblems())
	}
}

// TestPagesOfEverything reads each list that may be long in pages of two, which together are the list.
func TestPagesOfEverything(t *testing.T) {
	c, _ := real(t, t.TempDir(), 5, pki.RoleAdmin)
	ctx := t.Context()
	spec := webJob(12)
	spec.Task.Resources = &setpointv1.Resources{MilliCpu: 2000} // two a node, so that two tasks wait
	if _, err := c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: spec})); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := c.CreateToken(ctx, connect.NewRequest(&apiv1.CreateTokenRequest{})); err != nil {
			t.Fatal(err)
		}
	}
	requirePages(t, 12, func(size int32, token string) ([]string, string, error) {
		res, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: "web", SlotsPageSize: size, SlotsPageToken: token}))
		return keys(res, func(m *apiv1.GetJobResponse) ([]*apiv1.Slot, string) {
			return m.GetJob().GetSlots(), m.GetNextSlotsPageToken()
		}, (*apiv1.Slot).GetKey, err)
	})
	requirePages(t, 5, func(size int32, token string) ([]string, string, error) {
		res, err := c.WhyTask(ctx, connect.NewRequest(&apiv1.WhyTaskRequest{Task: "web/12", PageSize: size, PageToken: token}))
		return keys(res, func(m *apiv1.WhyTaskResponse) ([]*apiv1.WhyNode, string) { return m.GetNodes(), m.GetNextPageToken() }, (*apiv1.WhyNode).GetNode, err)
	})
	requirePages(t, 5, func(size int32, token string) ([]string, string, error) {
		res, err := c.ListTokens(ctx, connect.NewRequest(&apiv1.ListTokensRequest{PageSize: size, PageToken: token}))
		return keys(res, func(m *apiv1.ListTokensResponse) ([]*apiv1.Token, string) { return m.GetTokens(), m.GetNextPageToken() }, (*apiv1.Token).GetId, err)
	})
	requirePages(t, 12, func(size int32, token string) ([]string, string, error) {
		res, err := c.ListTasks(ctx, connect.NewRequest(&apiv1.ListTasksRequest{PageSize: size, PageToken: token}))
		return keys(res, func(m *apiv1.ListTasksResponse) ([]*apiv1.Task, string) { return m.GetTasks(), m.GetNextPageToken() }, (*apiv1.Task).GetId, err)
	})
	_, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: "web", SlotsPageSize: -1}))
	if d := requireCode(t, err, api.CodeInvalid); d.GetProblems()[0].GetPath() != "slots_page_size" {
		t.Errorf("a negative page: %v", d)
	}
}

func keys[M, X any](res *connect.Response[M], of func(*M) ([]X, string), key func(X) string, err error) ([]string, string, error) {
	if err != nil {
		return nil, "", err
	}
	items, next := of(res.Msg)
	var out []string
	for _, x := range items {
		out = append(out, key(x))
	}
	return out, next, nil
}

func requirePages(t *testing.T, want int, page func(size int32, token string) ([]string, string, error)) {
	t.Helper()
	whole, next, err := page(0, "")
	if err != nil || next != "" || len(whole) != want {
		t.Fatalf("the whole list is %v, then %q, %v; want %d", whole, next, err, want)
	}
	var all []string
	token := ""
	for {
		some, next, err := page(2, token)
		if err != nil || len(some) > 2 {
			t.Fatalf("a page is %v, %v", some, err)
		}
		all = append(all, some...)
		if token = next; token == "" {
			break
		}
	}
	slices.Sort(whole)
	slices.Sort(all)
	if !slices.Equal(whole, all) {
		t.Errorf("the pages have %v, the list %v", all, whole)
	}
}

// TestRefusalsOfTheGateHaveCodes asks as nobody, and for more than a reader may.
func TestRefusalsOfTheGateHaveCodes(t *testing.T) {
	s := serve(t, nil)
	_, err := s.as(pki.RoleReader).RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: webSpec()}))
	requireCode(t, err, api.CodeForbidden)
	_, err = s.as(pki.RoleAdmin).ListSecrets(t.Context(), connect.NewRequest(&apiv1.ListSecretsRequest{}))
	requireCode(t, err, api.CodeNotOffered)
}

// TestWatchOfDroppedEvents asks for more of the past than there is.
func TestWatchOfDroppedEvents(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9)
	from := uint64(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := s.as(pki.RoleReader).WatchEvents(ctx, connect.NewRequest(&apiv1.WatchEventsRequest{FromRevision: &from}))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for w.Receive() {
	}
	if d := requireCode(t, w.Err(), api.CodeCompacted); d.GetHint() == "" || !client.IsCompacted(w.Err()) {
		t.Errorf("the refusal says %v", d)
	}
}
