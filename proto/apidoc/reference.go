package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// reference returns the page for people.
func reference(s protoreflect.ServiceDescriptor, examples []Example) string {
	var b strings.Builder
	all := calls(s)
	b.WriteString("# Reference of the API\n\n<!-- Made from the .proto files by `make proto`. -->\n\n")
	b.WriteString("Every call of the service `" + service + "`, and every message. How calls are made, and what keys, versions, pages and fields are, is in [API.md](../API.md).\n")
	b.WriteString("Names are those of the `.proto` files; in JSON they are in lowerCamelCase.\n\n")
	b.WriteString("| call | role | key | what it does |\n|---|---|---|---|\n")
	for _, c := range all {
		key := ""
		if c.keyed {
			key = "yes"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", c.Name(), anchor(string(c.Name())), c.role, key, cell(c.text))
	}
	b.WriteString("\n## Calls\n")
	for _, c := range all {
		writeCall(&b, c, examples)
	}
	b.WriteString("\n## Messages\n")
	for _, m := range messages(all) {
		if !isMessageOfCall(m) {
			fmt.Fprintf(&b, "\n### %s\n", m.Name())
			writeMessage(&b, m)
		}
	}
	for _, m := range messages(all) {
		if isMessageOfCall(m) && shared(m, all) {
			fmt.Fprintf(&b, "\n### %s\n", m.Name())
			writeMessage(&b, m)
		}
	}
	return b.String()
}

// shared reports whether a message is not described with the one call that has it.
func shared(m protoreflect.MessageDescriptor, all []call) bool {
	n := 0
	for _, c := range all {
		if c.Input() == m || c.Output() == m {
			n++
		}
	}
	return n != 1
}

func writeCall(b *strings.Builder, c call, examples []Example) {
	fmt.Fprintf(b, "\n### %s\n\n", c.Name())
	if c.text != "" {
		b.WriteString(c.text + "\n\n")
	}
	fmt.Fprintf(b, "Role: %s.", c.role)
	if c.keyed {
		b.WriteString(" Takes a [key](../API.md#idempotency-keys).")
	}
	switch {
	case c.IsStreamingClient():
		b.WriteString(" A stream in both directions.")
	case c.IsStreamingServer():
		b.WriteString(" Its answer is a stream.")
	case c.read:
		b.WriteString(" Also by GET.")
	}
	b.WriteString("\n")
	for _, side := range []struct {
		word string
		m    protoreflect.MessageDescriptor
	}{{"Request", c.Input()}, {"Answer", c.Output()}} {
		if n := side.m.Name(); isMessageOfCall(side.m) && strings.HasPrefix(string(n), string(c.Name())) {
			fmt.Fprintf(b, "\n%s `%s`:", side.word, n)
			if side.m.Fields().Len() == 0 {
				b.WriteString(" it is empty.\n")
				continue
			}
			b.WriteString("\n")
			writeMessage(b, side.m)
			continue
		}
		fmt.Fprintf(b, "\n%s: [%s](#%s).\n", side.word, side.m.Name(), anchor(string(side.m.Name())))
	}
	for _, e := range examples {
		if e.Call == string(c.Name()) {
			writeExample(b, e)
		}
	}
}

func writeExample(b *strings.Builder, e Example) {
	fmt.Fprintf(b, "\n%s\n\n```\nPOST /%s/%s\n", e.Title, service, e.Call)
	for _, name := range sortedKeys(e.Headers) {
		fmt.Fprintf(b, "%s: %s\n", name, e.Headers[name])
	}
	fmt.Fprintf(b, "\n%s\n\n%d\n\n%s\n```\n", indented(e.Request), e.Status, indented(e.Response))
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

func writeMessage(b *strings.Builder, m protoreflect.MessageDescriptor) {
	if text := comment(m); text != "" {
		b.WriteString("\n" + text + "\n")
	}
	if m.Fields().Len() == 0 {
		return
	}
	b.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		text := comment(f)
		if one := f.ContainingOneof(); one != nil && !one.IsSynthetic() {
			text = strings.TrimSpace("One of " + string(one.Name()) + ". " + text)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Name(), typeOf(f), cell(text))
	}
}

// typeOf returns a field's type for people, with a link where it is described here.
func typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map of " + f.MapKey().Kind().String() + " to " + typeOf(f.MapValue())
	case f.IsList():
		return "list of " + single(f)
	}
	return single(f)
}

func single(f protoreflect.FieldDescriptor) string {
	m := f.Message()
	if m == nil {
		return f.Kind().String()
	}
	if strings.HasPrefix(string(m.FullName()), "google.protobuf.") {
		return strings.ToLower(string(m.Name()))
	}
	at, _ := strings.CutSuffix(string(m.Name()), "Request") // a request is described with its call
	return fmt.Sprintf("[%s](#%s)", m.Name(), anchor(at))
}

func anchor(name string) string { return strings.ToLower(name) }

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
