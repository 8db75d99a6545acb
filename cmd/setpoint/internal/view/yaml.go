package view

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v4"
)

// YAML writes a value with the keys, the order and the values that it has in JSON.
func YAML(value any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	var doc yaml.Node // JSON is YAML, written in one way of several
	if err := yaml.Unmarshal(text.Bytes(), &doc); err != nil {
		return nil, err
	}
	plain(&doc)
	var out bytes.Buffer
	to := yaml.NewEncoder(&out)
	to.SetIndent(2)
	if err := to.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), to.Close()
}

// plain has a node written as people write YAML. What is empty stays as in JSON.
func plain(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	for _, c := range n.Content {
		plain(c)
	}
}
