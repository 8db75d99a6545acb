package compose

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"go.yaml.in/yaml/v4"
)

// places finds where in its files something stood that has come through extends and include.
type places struct {
	main   *document
	dir    string // of the main file
	loaded map[string]*document
}

// maxExtends is how far extends and include are followed.
const maxExtends = 16

// of returns where the way through the model stood, or the nearest of what it lies in.
func (p *places) of(steps ...string) hcl.Range {
	at, _ := p.in(p.main, p.dir, steps, 0)
	return at
}

// in looks in one document, and for what is not there in the services and files that it takes things from.
func (p *places) in(d *document, dir string, steps []string, depth int) (hcl.Range, int) {
	best, _, found := d.find(steps)
	if found == len(steps) || depth > maxExtends || len(steps) < 2 {
		return best, found
	}
	try := func(d *document, dir string, steps []string) {
		if d == nil {
			return
		}
		if at, n := p.in(d, dir, steps, depth+1); n > found {
			best, found = at, n
		}
	}
	if steps[0] == "services" && found >= 2 {
		file, service := extended(d, steps[1])
		if service != "" {
			base, baseDir := d, dir
			if file != "" {
				base, baseDir = p.load(dir, file)
			}
			try(base, baseDir, append([]string{"services", service}, steps[2:]...))
		}
	}
	for _, file := range included(d) {
		base, baseDir := p.load(dir, file)
		try(base, baseDir, steps)
	}
	return best, found
}

// extended says what a service extends: a service, perhaps of another file.
func extended(d *document, service string) (file, base string) {
	_, n, found := d.find([]string{"services", service, "extends"})
	switch {
	case found < 3 || n == nil:
		return "", ""
	case n.Kind == yaml.ScalarNode:
		return "", n.Value
	}
	if _, v := child(n, "file", 0); v != nil {
		file = resolve(v).Value
	}
	if _, v := child(n, "service", 0); v != nil {
		base = resolve(v).Value
	}
	return file, base
}

// included returns the files that a document includes.
func included(d *document) []string {
	_, n, found := d.find([]string{"include"})
	if found == 0 || n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	var out []string
	for _, each := range n.Content {
		each = resolve(each)
		if _, v := child(each, "path", 0); v != nil {
			each = resolve(v)
		}
		if each == nil {
			continue
		}
		if each.Kind == yaml.ScalarNode {
			out = append(out, each.Value)
		}
		for _, path := range each.Content {
			if each.Kind == yaml.SequenceNode && path.Kind == yaml.ScalarNode {
				out = append(out, path.Value)
			}
		}
	}
	return out
}

// load reads a file that the main file takes things from. One that cannot be read is nil: compose-go has said so.
func (p *places) load(dir, file string) (*document, string) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	if d, ok := p.loaded[file]; ok {
		return d, filepath.Dir(file)
	}
	var d *document
	if src, err := os.ReadFile(file); err == nil {
		if parsed, diags := parseDocument(p.shown(file), src); !diags.HasErrors() {
			d = parsed
		}
	}
	p.loaded[file] = d
	return d, filepath.Dir(file)
}

// shown is the name under which a file is spoken of: beside the main file's.
func (p *places) shown(file string) string {
	rel, err := filepath.Rel(p.dir, file)
	if err != nil {
		return file
	}
	return filepath.Join(filepath.Dir(p.main.name), rel)
}

// files are all that were looked at, for diagnostics.
func (p *places) files() map[string]*hcl.File {
	out := map[string]*hcl.File{p.main.name: {Bytes: p.main.src, Body: hcl.EmptyBody()}}
	for _, d := range p.loaded {
		if d != nil {
			out[d.name] = &hcl.File{Bytes: d.src, Body: hcl.EmptyBody()}
		}
	}
	return out
}

// where writes a place as FILE:LINE:COLUMN.
func where(at hcl.Range) string {
	return fmt.Sprintf("%s:%d:%d", at.Filename, at.Start.Line, at.Start.Column)
}
