package main

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// source is where files of the source that are no pages can be read.
const source = "https://github.com/setpointd/setpoint/blob/main/"

// renderer makes the bodies of pages.
type renderer struct {
	root  string
	pages map[string]string // by file of the source: the page's name
	files map[string]string // pictures, by file of the source: their name in the site
	md    goldmark.Markdown
	at    string // directory of the file that is rendered
}

func newRenderer(root string, groups []Group) *renderer {
	r := &renderer{root: root, pages: map[string]string{}, files: map[string]string{}}
	for _, g := range groups {
		for _, p := range g.Pages {
			r.pages[p.From] = p.To
		}
	}
	r.md = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough), goldmark.WithParserOptions(
		parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(r, 100)),
	))
	return r
}

var (
	drawing = regexp.MustCompile(`(?m)^<p>drawing: ([a-z-]+): (.*)</p>$`)
	table   = regexp.MustCompile(`(?s)<table>.*?</table>`)
)

// body returns a page's content.
func (r *renderer) body(p Page, bin string) (string, error) {
	switch {
	case p.From == "cli":
		return cliReference(bin)
	case !strings.HasSuffix(p.From, ".md"):
		b, err := os.ReadFile(filepath.Join(r.root, p.From))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("<h1>%s</h1>\n<p>Every setting of a server and an agent, as <code>%s</code> has them with their defaults. A test holds it to what the program reads.</p>\n<pre tabindex=\"0\"><code>%s</code></pre>",
			html.EscapeString(p.Title), p.From, html.EscapeString(string(b))), nil
	}
	b, err := os.ReadFile(filepath.Join(r.root, p.From))
	if err != nil {
		return "", err
	}
	r.at = path.Dir(p.From)
	var out bytes.Buffer
	ctx := parser.NewContext(parser.WithIDs(newIDs()))
	if err := r.md.Convert(b, &out, parser.WithContext(ctx)); err != nil {
		return "", err
	}
	body := table.ReplaceAllStringFunc(out.String(), func(t string) string { return `<div class="wide" tabindex="0">` + t + "</div>" })
	body = strings.ReplaceAll(body, "<pre>", `<pre tabindex="0">`)
	return r.draw(body)
}

// draw puts drawings where a paragraph asks for one, so that they have the page's colours.
func (r *renderer) draw(body string) (string, error) {
	var failed error
	body = drawing.ReplaceAllStringFunc(body, func(line string) string {
		m := drawing.FindStringSubmatch(line)
		svg, err := os.ReadFile(filepath.Join(r.root, "docs/site/drawings", m[1]+".svg"))
		if err != nil {
			failed = err
			return line
		}
		return "<figure tabindex=\"0\">\n" + string(svg) + "<figcaption>" + m[2] + "</figcaption>\n</figure>"
	})
	return body, failed
}

// Transform implements parser.ASTTransformer: links between files become links between pages.
func (r *renderer) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(r.link(string(n.Destination), false))
		case *ast.Image:
			n.Destination = []byte(r.link(string(n.Destination), true))
		}
		return ast.WalkContinue, nil
	})
}

func (r *renderer) link(to string, picture bool) string {
	file, fragment, _ := strings.Cut(to, "#")
	if file == "" || strings.Contains(to, "://") {
		return to
	}
	file = path.Join(r.at, file)
	if fragment != "" {
		fragment = "#" + fragment
	}
	if page, ok := r.pages[file]; ok {
		return page + fragment
	}
	if picture || strings.HasSuffix(file, ".png") {
		r.files[file] = "pictures/" + path.Base(file)
		return r.files[file]
	}
	if _, err := os.Stat(filepath.Join(r.root, file)); err != nil {
		return "missing:" + file
	}
	return source + file + fragment
}

// ids names headings as GitHub does, so that one anchor serves both.
type ids struct{ used map[string]int }

func newIDs() *ids { return &ids{used: map[string]int{}} }

var notInID = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// Generate implements parser.IDs.
func (s *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), ""), " ", "-")
	n := s.used[id]
	s.used[id] = n + 1
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put implements parser.IDs.
func (s *ids) Put(value []byte) { s.used[string(value)]++ }
