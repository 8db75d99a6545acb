package compose

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"go.yaml.in/yaml/v4"

	"github.com/setpointd/setpoint/core/hcltext"
)

// document is a YAML file with the places of its nodes.
type document struct {
	name string
	src  []byte
	root *yaml.Node
	tops []int // byte offset of each line
}

// parseDocument parses a file that has one YAML document. Its diagnostics have the place of what is wrong.
func parseDocument(name string, src []byte) (*document, hcl.Diagnostics) {
	d := &document{name: name, src: src, tops: []int{0}}
	for i, c := range src {
		if c == '\n' {
			d.tops = append(d.tops, i+1)
		}
	}
	if len(src) > hcltext.MaxFileSize {
		return d, hcl.Diagnostics{hcltext.Error(d.line(1), "File too large", fmt.Sprintf("It has %d bytes; the limit is %d.", len(src), hcltext.MaxFileSize))}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(src))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return d, hcl.Diagnostics{hcltext.Error(d.line(1), "Empty file", "A Compose file has services.")}
		}
		return d, d.syntax(err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return d, hcl.Diagnostics{hcltext.Error(d.line(second.Line), "More than one document", "A Compose file is one YAML document; give each a file of its own.")}
	case !errors.Is(err, io.EOF):
		return d, d.syntax(err)
	}
	if diags := d.bounded(&doc); diags.HasErrors() {
		return d, diags
	}
	if diags := d.twice(&doc); diags.HasErrors() {
		return d, diags
	}
	if len(doc.Content) == 1 {
		d.root = resolve(doc.Content[0])
	}
	if d.root == nil || d.root.Kind != yaml.MappingNode {
		return d, hcl.Diagnostics{hcltext.Error(d.line(1), "No Compose file", "A Compose file is a map with services in it.")}
	}
	return d, nil
}

// maxNodes limits how many nodes a document has with all aliases written out, and maxNesting how deep they are.
const (
	maxNodes   = 100_000
	maxNesting = 100
)

// bounded refuses a document that cannot be written out: an anchor that contains an alias of itself, or aliases that make more of it than anybody wrote.
func (d *document) bounded(root *yaml.Node) hcl.Diagnostics {
	sizes := make(map[*yaml.Node]int)
	open := make(map[*yaml.Node]bool)
	var found *hcl.Diagnostic
	var measure func(n *yaml.Node, depth int) int
	measure = func(n *yaml.Node, depth int) int {
		switch {
		case found != nil || n == nil:
			return 0
		case open[n]:
			found = hcltext.Error(d.span(n), "Anchor within itself", "What an alias stands for contains the alias.")
			return 0
		case depth > maxNesting:
			found = hcltext.Error(d.span(n), "Too deeply nested", fmt.Sprintf("Maps and lists can be nested %d deep.", maxNesting))
			return 0
		}
		if size, known := sizes[n]; known {
			return size
		}
		open[n] = true
		size := 1
		for _, each := range n.Content {
			size = min(size+measure(each, depth+1), maxNodes+1)
		}
		if n.Kind == yaml.AliasNode {
			size = min(size+measure(n.Alias, depth+1), maxNodes+1)
		}
		open[n] = false
		sizes[n] = size
		return size
	}
	if size := measure(root, 0); found == nil && size > maxNodes {
		found = hcltext.Error(d.line(1), "File too large", fmt.Sprintf("With its aliases written out it has more than %d values.", maxNodes))
	}
	if found == nil {
		return nil
	}
	return hcl.Diagnostics{found}
}

// twice refuses keys that a map has already: which of their values counts, every reader of YAML decides otherwise.
func (d *document) twice(n *yaml.Node) hcl.Diagnostics {
	var out hcl.Diagnostics
	if n.Kind == yaml.MappingNode {
		lines := make(map[string]int)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if first, there := lines[key.Value]; there && key.Kind == yaml.ScalarNode {
				out = append(out, hcltext.Error(d.span(key), "Key given twice", fmt.Sprintf("%q stands in line %d already.", key.Value, first)))
				continue
			}
			lines[key.Value] = key.Line
		}
	}
	for _, each := range n.Content {
		out = append(out, d.twice(each)...)
	}
	return out
}

// inLine finds the line in a message of the YAML parser.
var inLine = regexp.MustCompile(`^(?:go-)?yaml:? *(?:.*?)line (\d+)(?:, column (\d+))?:? *`)

func (d *document) syntax(err error) hcl.Diagnostics {
	text, line := err.Error(), 1
	if m := inLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = strings.TrimSpace(text[len(m[0]):])
	}
	return hcl.Diagnostics{hcltext.Error(d.line(line), "Invalid YAML", sentence(text))}
}

// line is the range of a whole line, counted from 1; of the last, if there are fewer.
func (d *document) line(n int) hcl.Range {
	n = min(max(n, 1), len(d.tops))
	from := d.tops[n-1]
	to := from + len(lineAt(d.src, from))
	return d.between(n, from, to)
}

func lineAt(src []byte, from int) []byte {
	line, _, _ := bytes.Cut(src[from:], []byte("\n"))
	return line
}

func (d *document) between(line, from, to int) hcl.Range {
	top := d.tops[line-1]
	return hcl.Range{
		Filename: d.name,
		Start:    hcl.Pos{Line: line, Column: utf8.RuneCount(d.src[top:from]) + 1, Byte: from},
		End:      hcl.Pos{Line: line, Column: utf8.RuneCount(d.src[top:to]) + 1, Byte: to},
	}
}

// span is the range of a node: a scalar of one line as it is written, of anything else the rest of its first line.
func (d *document) span(n *yaml.Node) hcl.Range {
	if n.Line < 1 || n.Line > len(d.tops) {
		return d.line(1)
	}
	top := d.tops[n.Line-1]
	line := lineAt(d.src, top)
	from := 0
	for range n.Column - 1 { // columns count characters
		_, size := utf8.DecodeRune(line[from:])
		from += size
	}
	to := len(line)
	if n.Kind == yaml.ScalarNode && bytes.HasPrefix(line[from:], []byte(n.Value)) && n.Value != "" {
		to = from + len(n.Value)
	}
	return d.between(n.Line, top+from, top+to)
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for range 100 { // an alias stands for no alias, in what the parser lets through
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// find goes the way through keys and indexes, as far as it leads. It returns where the last step that was found stands, its value, and how many steps that
// were.
func (d *document) find(steps []string) (at hcl.Range, value *yaml.Node, found int) {
	return d.findFrom(d.line(1), d.root, steps)
}

func (d *document) findFrom(at hcl.Range, n *yaml.Node, steps []string) (hcl.Range, *yaml.Node, int) {
	for i, step := range steps {
		key, value := child(n, step, 0)
		if key == nil {
			return at, n, i
		}
		at, n = d.span(key), resolve(value)
	}
	return at, n, len(steps)
}

// maxMerges is how deep merge keys are followed.
const maxMerges = 32

// child returns the key, or element, of a step and what stands there. The elements of a list such as "KEY=VALUE" are found by their key as well, and by
// their index.
func child(n *yaml.Node, step string, merges int) (key, value *yaml.Node) {
	n = resolve(n)
	if n == nil || merges > maxMerges {
		return nil, nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "<<" {
				if key, value := merged(n.Content[i+1], step, merges); key != nil {
					return key, value
				}
			}
		}
	case yaml.SequenceNode:
		return element(n, step)
	}
	return nil, nil
}

// merged looks in what a merge key takes over: a map, or a list of them.
func merged(n *yaml.Node, step string, merges int) (key, value *yaml.Node) {
	n = resolve(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return child(n, step, merges+1)
	}
	for _, each := range n.Content {
		if key, value := child(each, step, merges+1); key != nil {
			return key, value
		}
	}
	return nil, nil
}

func element(n *yaml.Node, step string) (key, value *yaml.Node) {
	if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
		return n.Content[i], n.Content[i]
	}
	for _, each := range n.Content {
		if each.Kind != yaml.ScalarNode {
			continue
		}
		rest, ok := strings.CutPrefix(each.Value, step)
		if ok && (rest == "" || strings.ContainsAny(rest[:1], "=:")) {
			return each, each
		}
	}
	return nil, nil
}

// sentence makes a sentence of a text that somebody else wrote.
func sentence(text string) string {
	text = strings.TrimRight(strings.TrimSpace(text), ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
