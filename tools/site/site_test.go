package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSite builds the whole site, which fails if any of its links leads nowhere.
func TestSite(t *testing.T) {
	root := filepath.Join("..", "..")
	bin := filepath.Join(root, "bin", "setpoint")
	if _, err := os.Stat(bin); err != nil {
		t.Skip("bin/setpoint is not built: make build")
	}
	out := filepath.Join(t.TempDir(), "site")
	if err := build(root, bin, out); err != nil {
		t.Fatal(err)
	}
	cli, err := os.ReadFile(filepath.Join(out, "cli.html"))
	if err != nil || !strings.Contains(string(cli), `id="setpoint-job-run"`) {
		t.Errorf("the reference of commands has no setpoint job run, %v", err)
	}
	index, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil || strings.Count(string(index), "<svg") != 5 {
		t.Errorf("the first page has %d drawings, want 5, %v", strings.Count(string(index), "<svg"), err)
	}
}

// TestEveryPageOfDocsIsThere holds that whatever is written for users is on the site.
func TestEveryPageOfDocsIsThere(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := os.ReadFile(filepath.Join(root, "docs/site/pages.json"))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("%d pages, %v", len(docs), err)
	}
	for _, doc := range docs {
		if name := "docs/" + filepath.Base(doc); !strings.Contains(string(pages), `"`+name+`"`) {
			t.Errorf("docs/site/pages.json lacks %s", name)
		}
	}
}

// TestBrokenLinksAreFound has one of each kind.
func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	page := `<h1 id="a">A</h1><a href="#a"></a><a href="b.html#x"></a><a href="#b"></a><a href="c.html"></a><a href="missing:docs/X.md"></a>
<script src="https://example.com/x.js"></script><a href="https://example.com/"></a>`
	for name, text := range map[string]string{"a.html": page, "b.html": `<h1 id="x">`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := "a.html: #b|a.html: c.html|a.html: https://example.com/x.js|a.html: missing:docs/X.md"
	if got := strings.Join(brokenLinks(dir), "|"); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}
