package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
	"github.com/setpointd/setpoint/test/apiserver"
)

// start runs a server with two nodes for an example, and returns where it is, and a credential for it.
func start() (addr, credential string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	s, err := apiserver.Start(apiserver.Options{Dir: dir, Nodes: 2})
	check(err)
	credential, err = s.Credential(pki.RoleOperator, "ann")
	check(err)
	return s.Addr(), credential, func() {
		check(s.Stop())
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
}

// web is a job of some slots.
func web(count int64) *setpointv1.JobSpec {
	return &setpointv1.JobSpec{Name: "web", Count: count, Task: &setpointv1.TaskSpec{Driver: "sim", Command: []string{"/srv/web"}}}
}

// A job is submitted, and waited for until all of its slots are up.
func Example() {
	addr, credential, stop := start()
	defer stop()
	ctx := context.Background()

	c, err := client.New(client.Options{Addr: addr, Pair: credential})
	check(err)
	defer c.Close()

	res, err := c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: web(3), Reason: "first try"}))
	check(err)
	fmt.Println("version", res.Msg.GetVersion(), "changed", res.Msg.GetChanged())

	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	job, err := c.WaitJob(ctx, "web", func(j *apiv1.Job) (bool, error) { return j.GetState() == "running", nil })
	check(err)
	fmt.Println(job.GetName(), "is", job.GetState(), "with", job.GetCounts().GetUp(), "up")

	// Output:
	// version 1 changed true
	// web is running with 3 up
}

// What a refused call says for programs: a code of the list in docs/API.md, what to do, and all mistakes at once.
func ExampleDetail() {
	addr, credential, stop := start()
	defer stop()
	c, err := client.New(client.Options{Addr: addr, Pair: credential})
	check(err)
	defer c.Close()

	bad := web(-1)
	bad.Priority = 101
	_, err = c.RunJob(context.Background(), connect.NewRequest(&apiv1.RunJobRequest{Spec: bad}))
	detail := client.Detail(err)
	fmt.Println(detail.GetCode())
	for _, p := range detail.GetProblems() {
		fmt.Println(p.GetPath()+":", p.GetSummary())
	}

	// Output:
	// invalid
	// count: Negative number
	// priority: Number out of range
}

// A command whose caller keeps a key is carried out once, however often it is asked: by a program that was started again, say.
func ExampleOnlyOnce() {
	addr, credential, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Addr: addr, Pair: credential})
	check(err)
	defer c.Close()

	for range 2 {
		req := client.OnlyOnce(connect.NewRequest(&apiv1.RunJobRequest{Spec: web(1)}), "deployment-42")
		res, err := c.RunJob(ctx, req)
		check(err)
		fmt.Println("changed", res.Msg.GetChanged(), "repeated", client.Repeated(res.Header()))
	}

	// Output:
	// changed true repeated false
	// changed true repeated true
}

// Somebody else changed the job between looking and deciding.
func ExampleIfMatch() {
	addr, credential, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Addr: addr, Pair: credential})
	check(err)
	defer c.Close()
	_, err = c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: web(1)}))
	check(err)

	seen, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: "web"}))
	check(err)
	_, err = c.ScaleJob(ctx, connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 2})) // somebody else
	check(err)
	scale := connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: seen.Msg.GetJob().GetSpec().GetCount() + 4})
	_, err = c.ScaleJob(ctx, client.IfMatch(scale, seen.Header().Get("ETag")))
	fmt.Println(client.IsConflict(err), err)

	// Output:
	// true aborted: job web is at version 2, not 1
}

// All pages of a list, one after another.
func ExampleAll() {
	addr, credential, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Addr: addr, Pair: credential})
	check(err)
	defer c.Close()

	nodes := client.All(func(token string) ([]*apiv1.Node, string, error) {
		res, err := c.ListNodes(ctx, connect.NewRequest(&apiv1.ListNodesRequest{PageSize: 1, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetNodes(), res.Msg.GetNextPageToken(), nil
	})
	for n, err := range nodes {
		check(err)
		fmt.Println(n.GetName(), n.GetState())
	}

	// Output:
	// n1 ready
	// n2 ready
}

// The state of a list, and everything that happens after it, without a gap.
func ExampleClient_Watch() {
	addr, credential, stop := start()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{Addr: addr, Pair: credential})
	check(err)
	defer c.Close()

	list, err := c.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{}))
	check(err)
	fmt.Println(len(list.Msg.GetJobs()), "jobs")
	_, err = c.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: web(1)}))
	check(err)

	from := list.Msg.GetRevision() + 1
	err = c.Watch(ctx, &apiv1.WatchEventsRequest{FromRevision: &from, Follow: true, Job: "web", Kinds: []string{"job_created", "task_observed"}}, func(e *apiv1.Event) bool {
		fmt.Println(e.GetKind())
		return e.GetKind() != "task_observed"
	})
	check(err)

	// Output:
	// 0 jobs
	// job_created
	// task_observed
}
