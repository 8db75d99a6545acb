package hcltext

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Decoder reads bodies and collects what is wrong with them. The zero value is ready.
type Decoder struct {
	Diags  hcl.Diagnostics
	Ranges Ranges
	Unsaid []string // paths of the attributes and blocks that could have stood in the bodies and did not
	Scope  *Scope   // what expressions may speak of; nil: nothing

	failed []string // paths of values that could not be read
}

// Fields says what a body may have.
type Fields struct {
	Attributes map[string]func(Value)
	Blocks     map[string]BlockField
}

// BlockField says how one kind of block is read.
type BlockField struct {
	Label    string // what its label is called; "" if it has none
	Repeated bool   // more than one may stand there: with a label, one for each; without, a list
	Alike    bool   // with a label and Repeated: several may have the same one. From the second on their paths end in [1], [2], …
	Required bool
	Read     func(Block)
}

// Block is a block to be read.
type Block struct {
	Path  string
	Label string // "" without
	Body  hcl.Body
	At    hcl.Range // of its header
	Named hcl.Range // of its label
	Index int       // among blocks of its type
}

// Body reads a body at a path; at is where to say that something is missing in it. Attributes and blocks are read in the order in which they stand.
func (d *Decoder) Body(body hcl.Body, path string, at hcl.Range, fields Fields) {
	d.Record(path, at)
	content, diags := body.Content(schemaOf(fields))
	d.Diags = append(d.Diags, diags...)
	if content == nil {
		return
	}
	attributes := slices.SortedFunc(maps.Values(content.Attributes), func(a, b *hcl.Attribute) int { return compareRanges(a.Range, b.Range) })
	for _, a := range attributes {
		v := Value{decoder: d, Path: Dotted(path, a.Name), Expr: a.Expr, At: a.NameRange}
		d.Ranges.addExpr(v.Path, a.Expr)
		fields.Attributes[a.Name](v)
	}
	for _, name := range slices.Sorted(maps.Keys(fields.Attributes)) {
		if _, block := fields.Blocks[name]; content.Attributes[name] == nil && !block { // a short form of the block is listed as that
			d.Unsaid = append(d.Unsaid, Dotted(path, name))
		}
	}
	d.blocks(content.Blocks, path, at, fields.Blocks)
}

func schemaOf(fields Fields) *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, name := range slices.Sorted(maps.Keys(fields.Attributes)) {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(fields.Blocks)) {
		header := hcl.BlockHeaderSchema{Type: name}
		if label := fields.Blocks[name].Label; label != "" {
			header.LabelNames = []string{label}
		}
		schema.Blocks = append(schema.Blocks, header)
	}
	return schema
}

func (d *Decoder) blocks(blocks hcl.Blocks, path string, at hcl.Range, fields map[string]BlockField) {
	first, counts, same := make(map[string]hcl.Range), make(map[string]int), make(map[string]int)
	for _, b := range blocks {
		field := fields[b.Type]
		block := Block{Path: Dotted(path, b.Type), Body: b.Body, At: b.DefRange, Index: counts[b.Type]}
		counts[b.Type]++
		switch {
		case field.Label != "":
			block.Label, block.Named = b.Labels[0], b.LabelRanges[0]
			block.Path = Keyed(block.Path, block.Label)
		case field.Repeated:
			block.Path = fmt.Sprintf("%s[%d]", block.Path, block.Index)
		}
		if field.Alike {
			same[block.Path]++
			if n := same[block.Path]; n > 1 {
				block.Path = fmt.Sprintf("%s[%d]", block.Path, n-1)
			}
		}
		key := block.Path
		if field.Label != "" && !field.Repeated {
			key = Dotted(path, b.Type)
		}
		if earlier, twice := first[key]; twice {
			d.Fail(block.Path, b.DefRange, "Block given twice", fmt.Sprintf("There is one at %s already.", position(earlier)))
			continue
		}
		first[key] = b.DefRange
		d.Ranges.add(block.Path, b.DefRange)
		field.Read(block)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if counts[name] == 0 {
			d.Unsaid = append(d.Unsaid, Dotted(path, name))
		}
		if fields[name].Required && counts[name] == 0 {
			d.Fail(Dotted(path, name), at, "Missing "+name+" block", fmt.Sprintf("A %q block is required here.", name))
		}
	}
}

// Record remembers where something stood.
func (d *Decoder) Record(path string, at hcl.Range) { d.ranges().add(path, at) }

// RecordExpr remembers where an expression stood, with the elements of a list or map.
func (d *Decoder) RecordExpr(path string, expr hcl.Expression) { d.ranges().addExpr(path, expr) }

func (d *Decoder) ranges() Ranges {
	if d.Ranges == nil {
		d.Ranges = make(Ranges)
	}
	return d.Ranges
}

// Fail reports what is wrong with the value at a path.
func (d *Decoder) Fail(path string, at hcl.Range, summary, detail string) {
	d.failed = append(d.failed, path)
	d.Diags = append(d.Diags, Error(at, summary, detail))
}

// Failed reports whether the value at path, something in it, or something that it lies in could not be read, so that what is missing of it is no further
// mistake.
func (d *Decoder) Failed(path string) bool {
	return slices.ContainsFunc(d.failed, func(f string) bool { return within(f, path) || within(path, f) })
}

// within reports whether path is outer, or a part of it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// Dotted returns the path of an attribute or block within path.
func Dotted(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func position(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

func compareRanges(a, b hcl.Range) int {
	return cmp.Or(cmp.Compare(a.Filename, b.Filename), cmp.Compare(a.Start.Byte, b.Start.Byte), cmp.Compare(a.End.Byte, b.End.Byte))
}

// Set reads an attribute into a variable, which is left as it is if the attribute is null or wrong.
func Set[T any](read func(Value) (T, bool), into *T) func(Value) {
	return func(v Value) {
		if got, ok := read(v); ok {
			*into = got
		}
	}
}
