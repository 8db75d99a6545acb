package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/audit"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// told is what an engine was asked, in order.
type told struct {
	mu   sync.Mutex // guards what follows
	ran  []string
	note *engine.NoteStall // the latest
}

func (x *told) do(op engine.Op) (any, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch op := op.(type) {
	case engine.NoteStall:
		x.note = &op
		return nil, nil
	case engine.ScaleJob:
		x.ran = append(x.ran, op.Job)
	}
	return engine.JobResult{Job: job("web", 1), Changed: true}, nil
}

func (x *told) noted() (over bool, message string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.note == nil || x.note.Code != cluster.CodeAuditUnavailable {
		return true, ""
	}
	return x.note.Over, x.note.Message
}

// While the audit log cannot be written nothing is changed, or it is by what the operator decided; what was under way is written as soon as that works.
func TestAnAuditLogThatCannotBeWritten(t *testing.T) {
	for name, continues := range map[string]bool{"refuse": false, "continue": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			if err := os.Symlink("/dev/full", path); err != nil {
				t.Fatal(err)
			}
			log, err := audit.Open(path, audit.Limits{FileSize: 1 << 20, Files: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := log.Close(); err != nil {
					t.Error(err)
				}
			})
			s := serve(t, func(o *api.Options) { o.Audit, o.AuditContinues = log, continues })
			var x told
			s.engine.answer(x.do)
			operator, ctx := s.as(pki.RoleOperator), t.Context()
			scale := func(job string) error {
				_, err := operator.ScaleJob(ctx, connect.NewRequest(&apiv1.ScaleJobRequest{Job: job, Count: 3}))
				return err
			}
			if err := scale("first"); err != nil { // nobody knew yet
				t.Fatal(err)
			}
			if over, message := x.noted(); over || !strings.Contains(message, "no space left") {
				t.Errorf("the stall says %q", message)
			}
			err = scale("second")
			if refused := connect.CodeOf(err) == connect.CodeResourceExhausted; refused == continues || !continues && !strings.Contains(err.Error(), "audit log") {
				t.Errorf("while it cannot be written: %v", err)
			}
			if _, err := operator.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
				t.Errorf("looking: %v", err)
			}
			if _, err := operator.RunJob(ctx, connect.NewRequest(&apiv1.RunJobRequest{Spec: webSpec(), DryRun: true})); err != nil {
				t.Errorf("trying: %v", err)
			}

			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := scale("third"); err != nil {
				t.Errorf("once it can be written: %v", err)
			}
			if over, _ := x.noted(); !over {
				t.Error("the stall stays")
			}
			var got []string
			for _, e := range readAudit(t, s.as(pki.RoleAdmin), &apiv1.ReadAuditRequest{}) {
				got = append(got, e.GetOn()["job"]+" "+e.GetResult())
			}
			want, ran := "first ok, second resource_exhausted, third ok", "first third"
			if continues {
				want, ran = "first ok, second ok, third ok", "first second third"
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("it has %q, want %q", text, want)
			}
			if text := strings.Join(x.ran, " "); text != ran {
				t.Errorf("carried out were %q, want %q", text, ran)
			}
		})
	}
}
