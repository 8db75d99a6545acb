package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// fakeServer answers what a test says, over TLS and with a data directory as a server writes it. A call that the test did not expect is unimplemented.
type fakeServer struct {
	apiv1connect.UnimplementedApiServiceHandler
	dir datadir.Dir

	mu       sync.Mutex // guards what follows
	requests []any

	status func() (*apiv1.GetStatusResponse, error)
	job    func() (*apiv1.Job, error)
	runJob func(*apiv1.RunJobRequest) (*apiv1.JobResponse, error)
	node   func() *apiv1.Node
	tasks  func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse
	stalls []*apiv1.Stall // guarded by mu once a command runs
	why    *apiv1.WhyTaskResponse
	events []*apiv1.WatchEventsResponse
	plan   *apiv1.PlanResponse

	planError error
	refuse    func() bool // whether the server does not answer; nil: it does

	pair    *pki.Pair
	answers http.Handler
	stop    func() // ends the server that listens now
}

// newFake starts a fake server and writes its data directory.
func newFake(t *testing.T) *fakeServer {
	t.Helper()
	return newFakeWith(t, nil)
}

// newFakeWith starts one with other answers; nil: its own.
func newFakeWith(t *testing.T, answers apiv1connect.ApiServiceHandler) *fakeServer {
	t.Helper()
	f := &fakeServer{dir: datadir.Dir(t.TempDir())}
	authority, err := pki.LoadOrCreateAuthority(f.dir.Authority(), "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.LoadOrIssue(f.dir.ServerPair(), time.Now(), pki.Identity{Role: pki.RoleServer, Name: "s1"}, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.LoadOrIssue(f.dir.AdminPair(), time.Now(), pki.Identity{Role: pki.RoleAdmin, Name: "admin"}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	if answers == nil {
		answers = f
	}
	mux.Handle(apiv1connect.NewApiServiceHandler(answers))
	f.answers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.refuse != nil && f.refuse() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
	f.pair = pair
	f.listen(t)
	t.Cleanup(func() { f.stop() })
	return f
}

// listen has the server listen at a port of its own, and writes which that is.
func (f *fakeServer) listen(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: f.answers, TLSConfig: pki.ServerTLS(pki.NewHolder(f.pair))}
	var served sync.WaitGroup
	served.Go(func() { _ = s.ServeTLS(listener, "", "") })
	f.stop = func() {
		_ = s.Close()
		served.Wait()
	}
	if err := f.dir.WriteAddress("https://" + listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
}

// result is what a command did.
type result struct {
	code        int
	out, errOut string
}

// run executes a command line against the server.
func (f *fakeServer) run(t *testing.T, args ...string) result {
	t.Helper()
	return execute(t, "", append([]string{"--data-dir", string(f.dir)}, args...)...)
}

// execute executes a command line with an empty environment.
func execute(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{in: strings.NewReader(stdin), out: &out, errOut: &errOut, env: func(string) string { return "" }}
	code := a.run(t.Context(), args)
	return result{code, out.String(), errOut.String()}
}

func (f *fakeServer) note(req any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, req)
}

// wait replaces what waits.
func (f *fakeServer) wait(stalls ...*apiv1.Stall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stalls = stalls
}

func (f *fakeServer) noted() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// refused is an error as the server sends it.
func refused(code connect.Code, message string, detail *apiv1.ErrorDetail) error {
	err := connect.NewError(code, errorText(message))
	if d, bad := connect.NewErrorDetail(detail); bad == nil {
		err.AddDetail(d)
	}
	return err
}

type errorText string

func (e errorText) Error() string { return string(e) }

func respond[T any](msg *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(msg), nil
}

func (f *fakeServer) GetStatus(context.Context, *connect.Request[apiv1.GetStatusRequest]) (*connect.Response[apiv1.GetStatusResponse], error) {
	if f.status == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errorText("no status"))
	}
	return respond(f.status())
}

func (f *fakeServer) RunJob(_ context.Context, req *connect.Request[apiv1.RunJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	f.note(req.Msg)
	return respond(f.runJob(req.Msg))
}

func (f *fakeServer) GetJob(context.Context, *connect.Request[apiv1.GetJobRequest]) (*connect.Response[apiv1.GetJobResponse], error) {
	j, err := f.job()
	return respond(&apiv1.GetJobResponse{Job: j}, err)
}

func (f *fakeServer) ListJobs(context.Context, *connect.Request[apiv1.ListJobsRequest]) (*connect.Response[apiv1.ListJobsResponse], error) {
	j, err := f.job()
	return respond(&apiv1.ListJobsResponse{Jobs: []*apiv1.Job{j}}, err)
}

func (f *fakeServer) StopJob(_ context.Context, req *connect.Request[apiv1.StopJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	f.note(req.Msg)
	j, err := f.job()
	return respond(&apiv1.JobResponse{Job: j, Changed: true}, err)
}

func (f *fakeServer) ScaleJob(_ context.Context, req *connect.Request[apiv1.ScaleJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	f.note(req.Msg)
	j, err := f.job()
	return respond(&apiv1.JobResponse{Job: j, Changed: true}, err)
}

func (f *fakeServer) RemoveJob(_ context.Context, req *connect.Request[apiv1.RemoveJobRequest]) (*connect.Response[apiv1.RemoveJobResponse], error) {
	f.note(req.Msg)
	return respond(&apiv1.RemoveJobResponse{}, nil)
}

func (f *fakeServer) Plan(_ context.Context, req *connect.Request[apiv1.PlanRequest]) (*connect.Response[apiv1.PlanResponse], error) {
	f.note(req.Msg)
	return respond(f.plan, f.planError)
}

func (f *fakeServer) ListTasks(_ context.Context, req *connect.Request[apiv1.ListTasksRequest]) (*connect.Response[apiv1.ListTasksResponse], error) {
	return respond(f.tasks(req.Msg), nil)
}

func (f *fakeServer) StopTask(_ context.Context, req *connect.Request[apiv1.StopTaskRequest]) (*connect.Response[apiv1.StopTaskResponse], error) {
	f.note(req.Msg)
	return respond(&apiv1.StopTaskResponse{Task: &apiv1.Task{Id: "web/1/5", Phase: "stopping"}, Changed: true}, nil)
}

func (f *fakeServer) WhyTask(context.Context, *connect.Request[apiv1.WhyTaskRequest]) (*connect.Response[apiv1.WhyTaskResponse], error) {
	return respond(f.why, nil)
}

func (f *fakeServer) TaskLogs(_ context.Context, req *connect.Request[apiv1.TaskLogsRequest], stream *connect.ServerStream[apiv1.TaskLogsResponse]) error {
	f.note(req.Msg)
	for _, data := range []string{"one\ntw", "o\n"} {
		if err := stream.Send(&apiv1.TaskLogsResponse{Data: []byte(data)}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeServer) ListNodes(context.Context, *connect.Request[apiv1.ListNodesRequest]) (*connect.Response[apiv1.ListNodesResponse], error) {
	return respond(&apiv1.ListNodesResponse{Nodes: []*apiv1.Node{f.node()}}, nil)
}

func (f *fakeServer) GetNode(context.Context, *connect.Request[apiv1.GetNodeRequest]) (*connect.Response[apiv1.NodeResponse], error) {
	return respond(&apiv1.NodeResponse{Node: f.node()}, nil)
}

func (f *fakeServer) SetAvailability(_ context.Context, req *connect.Request[apiv1.SetAvailabilityRequest]) (*connect.Response[apiv1.SetAvailabilityResponse], error) {
	f.note(req.Msg)
	return respond(&apiv1.SetAvailabilityResponse{Nodes: []*apiv1.NodeResponse{{Node: f.node(), Changed: true}}}, nil)
}

func (f *fakeServer) LabelNode(_ context.Context, req *connect.Request[apiv1.LabelNodeRequest]) (*connect.Response[apiv1.NodeResponse], error) {
	f.note(req.Msg)
	return respond(&apiv1.NodeResponse{Node: f.node(), Changed: !req.Msg.GetDryRun(), Moves: []string{"web/1/5", "web/2/5"}}, nil)
}

func (f *fakeServer) DecommissionNode(_ context.Context, req *connect.Request[apiv1.DecommissionNodeRequest]) (*connect.Response[apiv1.NodeResponse], error) {
	f.note(req.Msg)
	if !req.Msg.GetForce() {
		return nil, refused(connect.CodeFailedPrecondition, "node n1 is not down", &apiv1.ErrorDetail{Code: "refused", Hint: "use --force"})
	}
	return respond(&apiv1.NodeResponse{Node: f.node(), Changed: true}, nil)
}

// ListStalls gives one stall a page.
func (f *fakeServer) ListStalls(_ context.Context, req *connect.Request[apiv1.ListStallsRequest]) (*connect.Response[apiv1.ListStallsResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(req.Msg.GetPageToken())
	if i >= len(f.stalls) {
		return respond(&apiv1.ListStallsResponse{}, nil)
	}
	next := ""
	if i+1 < len(f.stalls) {
		next = strings.Repeat("x", i+1)
	}
	return respond(&apiv1.ListStallsResponse{Stalls: f.stalls[i : i+1], NextPageToken: next}, nil)
}

// WatchEvents gives the events from a revision on; somebody who follows then waits.
func (f *fakeServer) WatchEvents(ctx context.Context, req *connect.Request[apiv1.WatchEventsRequest], stream *connect.ServerStream[apiv1.WatchEventsResponse]) error {
	f.note(req.Msg)
	for _, e := range f.events {
		if e.GetRevision() < req.Msg.GetFromRevision() {
			continue
		}
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	if req.Msg.GetFollow() {
		<-ctx.Done()
	}
	return nil
}

func (f *fakeServer) CreateToken(_ context.Context, req *connect.Request[apiv1.CreateTokenRequest]) (*connect.Response[apiv1.CreateTokenResponse], error) {
	f.note(req.Msg)
	return respond(&apiv1.CreateTokenResponse{Token: &apiv1.Token{Id: "abc", Role: req.Msg.GetRole()}, Text: "SPJT-1-x-y"}, nil)
}
