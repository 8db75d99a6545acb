package api

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fields are those of a message that were asked for, by name, each with those of the message in it; nil: all.
type fields map[protoreflect.Name]fields

// chosen is what of an answer was asked for. The zero value is everything.
type chosen struct {
	within protoreflect.FieldDescriptor // of the answer: what has the fields; nil: the answer itself
	fields fields
}

// maxFields is how many fields a request may name. What is wrong is said of each.
const maxFields = 500

// chosenFields returns what a request asks for in its field "fields", or what is wrong with that.
func chosenFields(req connect.AnyRequest, message proto.Message) (chosen, []cluster.Problem) {
	asked, ok := message.(interface{ GetFields() *fieldmaskpb.FieldMask })
	method, described := req.Spec().Schema.(protoreflect.MethodDescriptor)
	if !ok || !described || asked.GetFields() == nil {
		return chosen{}, nil
	}
	paths := asked.GetFields().GetPaths()
	if len(paths) > maxFields {
		return chosen{}, []cluster.Problem{{Path: "fields", Summary: "Too many fields", Detail: fmt.Sprintf("There are %d; it must be at most %d. Without any all are given.", len(paths), maxFields)}}
	}
	c := chosen{fields: fields{}}
	what := method.Output()
	if req.Spec().Procedure != apiv1connect.ApiServiceGetPluginProcedure {
		c.within = what.Fields().ByNumber(1) // every other answer has what was asked for as its first field
		what = c.within.Message()
	}
	var problems []cluster.Problem
	for _, path := range paths {
		if problem := c.fields.add(what, path); problem != nil {
			problems = append(problems, *problem)
		}
	}
	return c, problems
}

// add adds a field by its path, such as observed.exit_code.
func (f fields) add(m protoreflect.MessageDescriptor, path string) *cluster.Problem {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		name := protoreflect.Name(part)
		field := m.Fields().ByName(name)
		if field == nil {
			return unknownField(m, path, part)
		}
		inner, known := f[name]
		switch {
		case i == len(parts)-1:
			f[name] = nil
			return nil
		case field.Message() == nil || field.IsMap():
			return &cluster.Problem{Path: "fields", Summary: fmt.Sprintf("%s has no fields", strings.Join(parts[:i+1], ".")), Detail: fmt.Sprintf("%s asks for one of them.", path)}
		case known && inner == nil:
			inner = fields{} // all of it is asked for already; the rest is checked only
		case !known:
			inner = fields{}
			f[name] = inner
		}
		f, m = inner, field.Message()
	}
	return nil
}

func unknownField(m protoreflect.MessageDescriptor, path, part string) *cluster.Problem {
	var known []string
	for i := range m.Fields().Len() {
		known = append(known, string(m.Fields().Get(i).Name()))
	}
	detail := fmt.Sprintf("A %s has %s.", strings.ToLower(string(m.Name())), strings.Join(known, ", "))
	if near := cluster.Suggest(part, known); near != "" {
		detail = fmt.Sprintf("Did you mean %q? %s", near, detail)
	}
	return &cluster.Problem{Path: "fields", Summary: fmt.Sprintf("There is no field %q", path), Detail: detail}
}

// prune takes out of an answer what was not asked for.
func (c chosen) prune(answer proto.Message) {
	if c.fields == nil {
		return
	}
	m := answer.ProtoReflect()
	switch {
	case c.within == nil:
		c.fields.prune(m)
	case c.within.IsList():
		list := m.Get(c.within).List()
		for i := range list.Len() {
			c.fields.prune(list.Get(i).Message())
		}
	case m.Has(c.within):
		c.fields.prune(m.Get(c.within).Message())
	}
}

func (f fields) prune(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		inner, asked := f[field.Name()]
		switch {
		case !asked:
			m.Clear(field)
		case inner == nil:
		case field.IsList():
			for i := range v.List().Len() {
				inner.prune(v.List().Get(i).Message())
			}
		default:
			inner.prune(v.Message())
		}
		return true
	})
}
