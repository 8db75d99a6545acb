package api

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/audit"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	// keptEntries is how many entries wait at most while the audit log cannot be written; of those beyond them the server's log alone tells.
	keptEntries = 10_000
	// auditEvery is how often it is tried again without a call.
	auditEvery = 5 * time.Second
	// auditTold is how long the engine may take to record that the log cannot be written, or can again.
	auditTold = 5 * time.Second
)

// aboutAudit names the audit log in stalls of the cluster.
const aboutAudit = "audit log"

// auditError is why a call that would change something is refused: nobody could see later that it was made.
type auditError struct{ err error }

// Error says what is in the way.
func (e *auditError) Error() string {
	return fmt.Sprintf("the audit log cannot be written, so nothing is changed: %v", e.err)
}

// write writes an entry, or keeps it until that is possible.
func (a *auditor) write(ctx context.Context, e audit.Entry) {
	if a.to == nil {
		return
	}
	if a.whole() {
		err := a.to.Write(e)
		if err == nil {
			return
		}
		a.log.Error("audit entry not written", "caller", e.Who, "call", e.Call, "result", e.Result, "error", err)
		a.keep(e, err)
		a.tell(ctx, err)
		return
	}
	a.log.Error("audit entry not written", "caller", e.Who, "call", e.Call, "result", e.Result)
	a.keep(e, nil)
	if a.continues {
		_ = a.retry(ctx) // it is logged, and a stall of the cluster
	}
}

// whole reports whether all that was to be written was.
func (a *auditor) whole() bool {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	return a.broken == nil
}

// keep keeps an entry that was not written; with an error it is why.
func (a *auditor) keep(e audit.Entry, err error) {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	if err != nil {
		a.broken = err
	}
	if len(a.waiting) < keptEntries {
		a.waiting = append(a.waiting, e)
	}
}

// retry writes what waits, in order, and returns why that cannot be done.
func (a *auditor) retry(ctx context.Context) error {
	a.keeping.Lock()
	if a.broken == nil {
		a.keeping.Unlock()
		return nil
	}
	for len(a.waiting) > 0 {
		if a.broken = a.to.Write(a.waiting[0]); a.broken != nil {
			break
		}
		a.waiting = a.waiting[1:]
	}
	if len(a.waiting) == 0 {
		a.waiting, a.broken = nil, nil
	}
	err := a.broken
	a.keeping.Unlock()
	if err == nil {
		a.log.Info("audit log can be written again")
	}
	a.tell(ctx, err)
	return err
}

// mayChange returns an error for a call that would change something while the log cannot be written, unless changes go on then. What only keeps somebody in who is in
// already goes on: nodes would be lost otherwise.
func (a *auditor) mayChange(ctx context.Context, spec connect.Spec, req any) error {
	if a.to == nil || a.continues || !audited(spec) || isDryRun(req) {
		return nil
	}
	switch spec.Procedure {
	case apiv1connect.ApiServiceRenewLoginProcedure, agentv1connect.AgentServiceRenewProcedure:
		return nil
	}
	if err := a.retry(ctx); err != nil {
		return &auditError{err}
	}
	return nil
}

func isDryRun(req any) bool {
	tried, ok := req.(interface{ GetDryRun() bool })
	return ok && tried.GetDryRun()
}

// tell has everybody see that the log cannot be written, or can again.
func (a *auditor) tell(ctx context.Context, err error) {
	if a.engine == nil {
		return
	}
	note := engine.NoteStall{About: aboutAudit, Code: cluster.CodeAuditUnavailable, Over: err == nil}
	if err != nil {
		note.Message, note.Clears = "nothing is changed: "+err.Error(), "the server can write its audit log"
		if a.continues {
			note.Message = "what is changed is not written down: " + err.Error()
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTold)
	defer cancel()
	if _, err := a.engine.Do(ctx, "server", note); err != nil {
		a.log.Warn("state of the audit log not recorded", "error", err)
	}
}

// KeepAudit tries to write what waits for the audit log, until the context ends.
func (a *API) KeepAudit(ctx context.Context) error {
	if a.opts.Audit == nil {
		return nil
	}
	if a.opts.Engine.View().Noted(aboutAudit, cluster.CodeAuditUnavailable) != nil && a.auditor.whole() {
		a.auditor.tell(ctx, nil) // a server before this one could not
	}
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_ = a.auditor.retry(ctx) // it is a stall of the cluster
		}
	}
}
