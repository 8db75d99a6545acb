package api

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpointd/setpoint/core/pki"
)

// audited are the fields by which a request says what it is about.
var audited = [...]protoreflect.Name{"job", "task", "node", "nodes", "plugin", "count", "to", "action", "availability", "force", "set", "remove", "if_version", "reason", "id", "role", "secret", "version", "create"}

// audit writes down that somebody changed something: who, by which call, about what. Reading is not written down.
func (g *gate) audit(ctx context.Context, procedure string, req any) {
	if need := access[procedure]; need != pki.RoleOperator && need != pki.RoleAdmin {
		return
	}
	pairs := []any{"caller", author(ctx), "procedure", procedure}
	if tried, ok := req.(interface{ GetDryRun() bool }); ok && tried.GetDryRun() {
		return
	}
	if m, ok := req.(proto.Message); ok {
		pairs = append(pairs, subjectOfRequest(m.ProtoReflect())...)
	}
	g.log.Info("call carried out", pairs...)
}

// subjectOfRequest returns what a request is about, as pairs for the log.
func subjectOfRequest(m protoreflect.Message) []any {
	var out []any
	fields := m.Descriptor().Fields()
	for _, name := range audited {
		if f := fields.ByName(name); f != nil && m.Has(f) {
			out = append(out, string(name), valueText(f, m.Get(f)))
		}
	}
	if f := fields.ByName("spec"); f != nil && m.Has(f) {
		spec := m.Get(f).Message()
		if n := spec.Descriptor().Fields().ByName("name"); n != nil {
			out = append(out, "job", spec.Get(n).String())
		}
	}
	return out
}

// valueText returns a field's value as the log shows it.
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
