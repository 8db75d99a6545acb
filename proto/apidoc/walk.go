package main

import (
	"encoding/json"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Example is one call in JSON, and what it is answered. Examples follow each other on one server.
type Example struct {
	Call     string            `json:"call"`
	Title    string            `json:"title"`
	Headers  map[string]string `json:"headers,omitempty"`
	Request  json.RawMessage   `json:"request"`
	Status   int               `json:"status"`
	Response json.RawMessage   `json:"response"` // as far as it is said beforehand
}

// call is one method as it is described.
type call struct {
	protoreflect.MethodDescriptor
	text  string // what it does
	role  string // who may call it
	keyed bool   // takes a key
	read  bool   // changes nothing, so that it can be called by GET
}

var roleIs = regexp.MustCompile(`\s*Role: ([a-z]+)\.( Takes a key\.)?\s*`)

func calls(s protoreflect.ServiceDescriptor) []call {
	var out []call
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		c := call{MethodDescriptor: m, text: comment(m)}
		if found := roleIs.FindStringSubmatch(c.text); found != nil {
			c.role, c.keyed = found[1], found[2] != ""
			c.text = strings.TrimSpace(strings.Replace(c.text, found[0], " ", 1))
		}
		if o, ok := m.Options().(*descriptorpb.MethodOptions); ok {
			c.read = o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		}
		out = append(out, c)
	}
	return out
}

// streams reports whether a call is more than a question and an answer.
func (c call) streams() bool { return c.IsStreamingClient() || c.IsStreamingServer() }

// comment returns what stands before a thing, or behind it on its line, as one paragraph.
func comment(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	return strings.Join(strings.Fields(at.LeadingComments+" "+at.TrailingComments), " ")
}

// messages returns the messages that calls need, those of the project only, each once, in the order in which they are met.
func messages(all []call) []protoreflect.MessageDescriptor {
	var out []protoreflect.MessageDescriptor
	seen := map[protoreflect.FullName]bool{}
	var visit func(m protoreflect.MessageDescriptor)
	visit = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || !strings.HasPrefix(string(m.FullName()), "setpoint.") {
			return
		}
		seen[m.FullName()] = true
		if !m.IsMapEntry() {
			out = append(out, m)
		}
		for i := range m.Fields().Len() {
			if inner := m.Fields().Get(i).Message(); inner != nil {
				visit(inner)
			}
		}
	}
	for _, c := range all {
		visit(c.Input())
		visit(c.Output())
	}
	return out
}

// isMessageOfCall reports whether a message is the request or the answer of calls, rather than part of one.
func isMessageOfCall(m protoreflect.MessageDescriptor) bool {
	name := string(m.Name())
	return strings.HasSuffix(name, "Request") || strings.HasSuffix(name, "Response")
}
