package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpointd/setpoint/core/audit"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// Audit keeps what was changed, by whom; *audit.Log is one.
type Audit interface {
	// Write returns once the entry is on the disk.
	Write(e audit.Entry) error
	// Read calls yield with the entries that are wanted, oldest first, until it returns false.
	Read(f audit.Filter, yield func(audit.Entry) bool) error
}

// told are the fields by which a request says what it is about. None of them ever has a secret; whatever is not named here is not written.
var told = [...]protoreflect.Name{
	"job", "node", "nodes", "plugin", "task", "count", "to", "action", "availability", "force", "set", "remove", "if_version", "reason", "id", "role", "name", "secret", "version", "create", "serial", "sinks",
}

// Bounds of what is written of a call.
const (
	maxToldBytes    = 500 // of one field, and of the reason of a refusal
	refusalsAMinute = 60  // of one caller, so that nobody pushes out what is there by being refused
	maxRefused      = 1000
)

// auditor writes down who changed what, and who was refused.
type auditor struct {
	log hclog.Logger
	to  Audit // nil: the log alone

	continues bool   // changes go on while it cannot be written
	engine    Engine // that records stalls

	keeping sync.Mutex    // guards what follows
	broken  error         // why the latest entry was not written; nil: all were
	waiting []audit.Entry // that were not, oldest first

	mu      sync.Mutex // guards what follows
	since   time.Time  // when the minute began
	written map[string]int
	skipped map[string]int
}

func newAuditor(opts *Options) *auditor {
	return &auditor{log: opts.Log, to: opts.Audit, continues: opts.AuditContinues, engine: opts.Engine, written: make(map[string]int), skipped: make(map[string]int)}
}

// audited reports whether a call changes something. Reading is not written down.
func audited(spec connect.Spec) bool {
	switch spec.Procedure {
	case apiv1connect.ApiServiceLoginProcedure, apiv1connect.ApiServiceRenewLoginProcedure, agentv1connect.AgentServiceJoinProcedure,
		agentv1connect.AgentServiceRejoinProcedure, agentv1connect.AgentServiceRenewProcedure:
		return true
	}
	need := access[spec.Procedure]
	return (need == pki.RoleOperator || need == pki.RoleAdmin) && spec.IdempotencyLevel != connect.IdempotencyNoSideEffects
}

// note writes down how a call ended: what changed something, and what was refused.
func (a *auditor) note(ctx context.Context, spec connect.Spec, peer connect.Peer, req any, err error) {
	if isDryRun(req) && err == nil {
		return
	}
	c := callerOf(ctx)
	e := audit.Entry{Time: time.Now().UTC(), Who: c.Identity.Name, Role: string(c.Identity.Role), Serial: c.Serial, From: peer.Addr, Call: callName(spec.Procedure), Result: audit.OK}
	if err != nil {
		e.Result, e.Message = connect.CodeOf(asConnect(err)).String(), clip(message(err))
		if coded, ok := errors.AsType[*connect.Error](err); ok {
			e.Message = clip(coded.Message())
		}
		var may bool
		if may, e.Skipped = a.mayRefuse(e.Who, e.Time); !may {
			return
		}
	}
	e.On = aboutOf(req)
	if err == nil {
		a.say(spec, &e)
	}
	a.write(ctx, e)
}

// begun writes down that a call began which goes on for some time.
func (a *auditor) begun(ctx context.Context, spec connect.Spec, peer connect.Peer, req any) {
	c := callerOf(ctx)
	a.write(ctx, audit.Entry{
		Time: time.Now().UTC(), Who: c.Identity.Name, Role: string(c.Identity.Role), Serial: c.Serial, From: peer.Addr, Call: callName(spec.Procedure), On: aboutOf(req), Result: audit.Begun,
	})
}

// say tells the server's log of what an operator changed.
func (a *auditor) say(spec connect.Spec, e *audit.Entry) {
	if need := access[spec.Procedure]; need != pki.RoleOperator && need != pki.RoleAdmin {
		return
	}
	pairs := []any{"caller", e.Who, "procedure", spec.Procedure}
	keys := make([]string, 0, len(e.On))
	for k := range e.On {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		pairs = append(pairs, k, e.On[k])
	}
	a.log.Info("call carried out", pairs...)
}

// mayRefuse reports whether another refusal of a caller is written in this minute, and how many were not since the last that was.
func (a *auditor) mayRefuse(who string, now time.Time) (ok bool, skipped int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) >= time.Minute {
		a.since = now
		clear(a.written)
	}
	if _, known := a.written[who]; !known && len(a.written) >= maxRefused {
		who = ""
	}
	if a.written[who] >= refusalsAMinute {
		a.skipped[who]++
		return false, 0
	}
	a.written[who]++
	skipped = a.skipped[who]
	delete(a.skipped, who)
	return true, skipped
}

// callName is the name of a call as people say it: that of an agent's begins with agent.
func callName(procedure string) string {
	service, name := procedure[:strings.LastIndexByte(procedure, '/')], procedure[strings.LastIndexByte(procedure, '/')+1:]
	if strings.HasSuffix(service, agentv1connect.AgentServiceName) {
		return "agent." + name
	}
	return name
}

// aboutOf returns what a request is about.
func aboutOf(req any) map[string]string {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	m := message.ProtoReflect()
	if begin := m.Descriptor().Fields().ByName("begin"); begin != nil && begin.Message() != nil && m.Has(begin) {
		m = m.Get(begin).Message() // the first message of a conversation
	}
	out := make(map[string]string)
	fields := m.Descriptor().Fields()
	for _, name := range told {
		if f := fields.ByName(name); f != nil && m.Has(f) && f.Kind() != protoreflect.BytesKind && f.Message() == nil || f != nil && f.IsMap() && m.Has(f) {
			out[string(name)] = clip(valueText(f, m.Get(f)))
		}
	}
	if begin, ok := m.Interface().(*apiv1.TaskExecBegin); ok && len(begin.GetCommand()) > 0 {
		out["program"] = clip(begin.GetCommand()[0]) // what follows may be a password
	}
	if f := fields.ByName("spec"); f != nil && m.Has(f) {
		spec := m.Get(f).Message()
		if n := spec.Descriptor().Fields().ByName("name"); n != nil {
			out["job"] = clip(spec.Get(n).String())
		}
	}
	return out
}

// valueText returns a field's value as it is written.
func valueText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	var parts []string
	switch {
	case f.IsMap():
		v.Map().Range(func(k protoreflect.MapKey, x protoreflect.Value) bool {
			parts = append(parts, k.String()+"="+x.String())
			return true
		})
		slices.Sort(parts)
	case f.IsList():
		for i := range v.List().Len() {
			parts = append(parts, v.List().Get(i).String())
		}
	default:
		return v.String()
	}
	return strings.Join(parts, " ")
}

// clip shortens a text, at a whole character.
func clip(text string) string {
	if len(text) <= maxToldBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxToldBytes], "") + "…"
}

// auditedConn notes the first message of a stream.
type auditedConn struct {
	connect.StreamingHandlerConn
	first func(req any) // nil once it was called
}

// Receive receives a message.
func (c *auditedConn) Receive(m any) error {
	err := c.StreamingHandlerConn.Receive(m)
	if err == nil && c.first != nil {
		c.first(m)
		c.first = nil
	}
	return err
}
