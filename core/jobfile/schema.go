package jobfile

import (
	"encoding/json"
	"fmt"
	"strings"
)

// object is a part of a JSON Schema.
type object = map[string]any

// reference is how a text of the JSON form stands for a value of another type, in files that declare variables.
const reference = `^\$\{.*\}$`

// Schema returns the JSON Schema (draft 2020-12) of the JSON form of job files, for editors.
func Schema() ([]byte, error) {
	job := blockSchema("")
	job["required"] = []string{"task"}
	root := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Setpoint job file",
		"type":    "object",
		"properties": object{
			"//":       object{"description": "A comment."},
			"job":      labelled("name", object{"$ref": "#/$defs/job"}, "Jobs by their names."),
			"variable": labelled("name", object{"$ref": "#/$defs/variable"}, "Variables of the file by their names, spoken of as ${var.NAME}."),
			"locals":   oneOrMore(object{"type": "object"}, "Values with a name, spoken of as ${local.NAME}."),
		},
		"required":             []string{"job"},
		"additionalProperties": false,
		"$defs":                object{"job": job, "variable": variableSchema()},
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// blockSchema is the schema of a block, or of the job itself.
func blockSchema(path string) object {
	properties := object{"//": object{"description": "A comment."}}
	for _, f := range Fields() {
		if f.Block == path {
			properties[f.Name] = fieldSchema(f)
		}
	}
	for _, b := range Blocks() {
		name, ok := strings.CutPrefix(b.Path, prefixOf(path))
		if !ok || strings.Contains(name, ".") {
			continue
		}
		inner := blockSchema(b.Path)
		if b.Free {
			inner = object{"type": "object"}
		}
		switch {
		case b.Label != "":
			properties[name] = labelled(b.Label, inner, b.Says+".")
		default:
			properties[name] = oneOrMore(inner, b.Says+".")
		}
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

func prefixOf(path string) string {
	if path == "" {
		return ""
	}
	return path + "."
}

// labelled is the schema of blocks with a label: an object with a key for each, or a list of such.
func labelled(label string, inner object, says string) object {
	keyed := object{"type": "object", "description": "By " + label + ".", "additionalProperties": oneOrMore(inner, "")}
	return oneOrMore(keyed, says)
}

func oneOrMore(inner object, says string) object {
	out := object{"anyOf": []any{inner, object{"type": "array", "items": inner}}}
	if says != "" {
		out["description"] = says
	}
	return out
}

func fieldSchema(f Field) object {
	out := object{"description": f.Says + ".", "anyOf": append(kindSchemas(f), object{"type": "string", "pattern": reference}, object{"type": "null"})}
	if f.Default == "" {
		return out
	}
	var value any
	if err := json.Unmarshal([]byte(f.Default), &value); err == nil {
		out["default"] = value
	}
	return out
}

// scalars are what is taken as text.
var scalars = []string{"string", "number", "boolean"}

func kindSchemas(f Field) []any {
	switch f.Kind {
	case KindWord:
		return []any{object{"enum": f.Words}}
	case KindInt:
		return []any{object{"type": "integer"}}
	case KindNumber:
		return []any{object{"type": "number"}}
	case KindDuration:
		return []any{object{"type": "string", "pattern": `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)`}, object{"const": "0"}}
	case KindSize:
		return []any{object{"type": "integer"}, object{"type": "string", "pattern": `^ *[0-9.]+ *([KMGT]iB|[kKMGT]B|B)? *$`}}
	case KindAmount:
		return []any{object{"type": "integer"}, object{"type": "string", "pattern": `^ *[0-9]+ *%$`}}
	case KindTexts:
		return []any{object{"type": "array", "items": object{"type": scalars}}}
	case KindTextMap:
		return []any{object{"type": "object", "additionalProperties": object{"type": scalars}}}
	case KindIntMap:
		return []any{object{"type": "object", "additionalProperties": object{"anyOf": []any{object{"type": "integer"}, object{"type": "string", "pattern": reference}}}}}
	case KindMap:
		return []any{object{"type": "object"}}
	}
	return []any{object{"type": scalars}}
}

func variableSchema() object {
	text := object{"type": "string"}
	return object{
		"type": "object", "additionalProperties": false,
		"properties": object{
			"//":          object{"description": "A comment."},
			"type":        object{"type": "string", "description": "string, number, bool, list(…), map(…), object({…}) or any."},
			"default":     object{"description": "Its value where none is given; without it one must be."},
			"description": text,
			"validation": oneOrMore(object{
				"type": "object", "additionalProperties": false, "required": []string{"condition", "error_message"},
				"properties": object{"condition": object{"type": []string{"string", "boolean"}}, "error_message": text},
			}, "What its value must meet."),
		},
	}
}
