package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// object is a JSON object; encoding/json writes its keys in order.
type object = map[string]any

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// openAPI returns the document of the JSON form. Streams have another framing, which OpenAPI cannot say, and are left out.
func openAPI(s protoreflect.ServiceDescriptor, examples []Example) (string, error) {
	all := calls(s)
	paths := object{}
	for _, c := range all {
		if c.streams() {
			continue
		}
		item := object{"post": operation(c, examples)}
		if c.read {
			item["get"] = getOperation(c)
		}
		paths["/"+service+"/"+string(c.Name())] = item
	}
	schemas := object{"Error": errorSchema()}
	for _, m := range messages(all) {
		schemas[string(m.Name())] = messageSchema(m)
	}
	detail := s.ParentFile().Messages().ByName("ErrorDetail")
	problem := s.ParentFile().Messages().ByName("Problem")
	if detail == nil || problem == nil {
		return "", fmt.Errorf("%s has no ErrorDetail or no Problem", s.ParentFile().Path())
	}
	schemas["ErrorDetail"], schemas["Problem"] = messageSchema(detail), messageSchema(problem)
	document := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Setpoint", "version": "v1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "The JSON form of the service " + service + ", by the Connect protocol. Names may be given as in the .proto files too. Streams are left out.",
		},
		"servers":  []any{object{"url": "https://{server}", "variables": object{"server": object{"default": "127.0.0.1:7480"}}}},
		"security": []any{object{"mutualTLS": []any{}}},
		"paths":    paths,
		"components": object{"schemas": schemas, "securitySchemes": object{"mutualTLS": object{"type": "mutualTLS", "description": "A certificate that the cluster's authority issued."}}, "responses": object{
			"Refused": object{"description": "The call was refused", "content": jsonContent(object{"$ref": "#/components/schemas/Error"})},
		}},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(document)
	return b.String(), err
}

func jsonContent(schema object) object { return object{"application/json": object{"schema": schema}} }

func ref(m protoreflect.MessageDescriptor) object {
	return object{"$ref": "#/components/schemas/" + string(m.Name())}
}

func described(c call) object {
	out := object{"tags": []any{"ApiService"}, "x-role": c.role}
	text := "Role: " + c.role + "."
	if c.text != "" {
		summary, _, _ := strings.Cut(c.text, ". ")
		out["summary"] = strings.TrimSuffix(summary, ".")
		text = c.text + " " + text
	}
	out["description"] = text
	return out
}

func operation(c call, examples []Example) object {
	out := described(c)
	out["operationId"] = string(c.Name())
	request, answer := jsonContent(ref(c.Input())), jsonContent(ref(c.Output()))
	requests, answers := object{}, object{}
	for i, e := range examples {
		if e.Call != string(c.Name()) {
			continue
		}
		name := fmt.Sprintf("example%d", i+1)
		requests[name] = object{"summary": e.Title, "value": e.Request}
		if e.Status == 200 {
			answers[name] = object{"summary": e.Title, "value": e.Response}
		}
	}
	if len(requests) > 0 {
		request["application/json"].(object)["examples"] = requests
	}
	if len(answers) > 0 {
		answer["application/json"].(object)["examples"] = answers
	}
	out["requestBody"] = object{"required": true, "content": request}
	out["responses"] = object{"200": object{"description": "Carried out", "content": answer}, "default": object{"$ref": "#/components/responses/Refused"}}
	var headers []any
	if c.keyed {
		headers = append(headers, header("Idempotency-Key", "The command is carried out once under this key of the caller.", "^[A-Za-z0-9._:-]{1,128}$"))
	}
	if c.Input().Fields().ByName("if_version") != nil {
		headers = append(headers, header("If-Match", "Instead of ifVersion: the job's version, as its ETag has it.", `^(\*|"?[0-9]+"?)$`))
	}
	if len(headers) > 0 {
		out["parameters"] = headers
	}
	return out
}

func header(name, text, pattern string) object {
	return object{"name": name, "in": "header", "description": text, "schema": object{"type": "string", "pattern": pattern}}
}

func getOperation(c call) object {
	out := described(c)
	out["operationId"] = string(c.Name()) + "ByGet"
	out["parameters"] = []any{
		object{"name": "connect", "in": "query", "required": true, "schema": object{"const": "v1"}},
		object{"name": "encoding", "in": "query", "required": true, "schema": object{"const": "json"}},
		object{"name": "message", "in": "query", "required": true, "content": jsonContent(ref(c.Input()))},
	}
	out["responses"] = object{"200": object{"description": "The answer", "content": jsonContent(ref(c.Output()))}, "default": object{"$ref": "#/components/responses/Refused"}}
	return out
}

// errorSchema is the form of every refusal.
func errorSchema() object {
	return object{
		"type": "object", "required": []any{"code"}, "description": "A refusal. docs/API.md has the codes of its detail.",
		"properties": object{
			"code":    object{"type": "string", "description": "Connect's code, such as aborted"},
			"message": object{"type": "string"},
			"details": object{"type": "array", "items": object{"type": "object", "properties": object{
				"type": object{"type": "string"}, "value": object{"type": "string", "contentEncoding": "base64"}, "debug": object{"$ref": "#/components/schemas/ErrorDetail"},
			}}},
		},
	}
}

func messageSchema(m protoreflect.MessageDescriptor) object {
	properties := object{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		schema := fieldSchema(f)
		if text := comment(f); text != "" {
			schema["description"] = text
		}
		properties[f.JSONName()] = schema
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if text := comment(m); text != "" {
		out["description"] = text
	}
	return out
}

func fieldSchema(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return object{"type": "object", "additionalProperties": valueSchema(f.MapValue())}
	case f.IsList():
		return object{"type": "array", "items": valueSchema(f)}
	}
	return valueSchema(f)
}

// valueSchema is the form of one value in ProtoJSON.
func valueSchema(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return object{"type": "integer", "format": "int32"}
	case protoreflect.Uint32Kind:
		return object{"type": "integer", "format": "int64", "minimum": 0}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return object{"type": []any{"string", "integer"}, "format": "int64"}
	case protoreflect.Uint64Kind:
		return object{"type": []any{"string", "integer"}, "format": "uint64"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{"type": "number"}
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Timestamp":
			return object{"type": "string", "format": "date-time"}
		case "google.protobuf.Duration":
			return object{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?s$`}
		case "google.protobuf.FieldMask":
			return object{"type": "string"}
		}
		return ref(f.Message())
	}
	panic("a field of kind " + f.Kind().String() + " has no form in the document: " + string(f.FullName()))
}
