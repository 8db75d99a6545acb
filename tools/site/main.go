// Command site makes the documentation's site: static pages that work without a network. It renders the Markdown that docs/site/pages.json names, draws in what
// stands in docs/site/drawings, makes the reference of commands from the binary itself, and fails if a link leads nowhere.
//
//	site -root DIR -bin FILE -out DIR
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Page is one page of the site.
type Page struct {
	From  string `json:"from"` // a file below the root, or "cli"
	To    string `json:"to"`
	Title string `json:"title"`
}

// Group is a part of the menu.
type Group struct {
	Title string `json:"title"`
	Pages []Page `json:"pages"`
}

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "site: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("site", flag.ContinueOnError)
	flags.SetOutput(usage)
	root := flags.String("root", ".", "directory of the source")
	bin := flags.String("bin", "bin/setpoint", "the binary whose commands are described")
	out := flags.String("out", "site", "directory of the site, which is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return build(*root, *bin, *out)
}

// build writes the site and checks its links.
func build(root, bin, out string) error {
	var groups []Group
	text, err := os.ReadFile(filepath.Join(root, "docs/site/pages.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &groups); err != nil {
		return fmt.Errorf("read pages.json: %w", err)
	}
	frame, err := template.ParseFiles(filepath.Join(root, "docs/site/page.html"))
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	r := newRenderer(root, groups)
	for _, g := range groups {
		for _, p := range g.Pages {
			body, err := r.body(p, bin)
			if err != nil {
				return fmt.Errorf("%s: %w", p.From, err)
			}
			var b bytes.Buffer
			err = frame.Execute(&b, map[string]any{"Title": p.Title, "To": p.To, "Groups": groups, "Body": template.HTML(body)}) //nolint:gosec // it is our own text
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(out, p.To), b.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"style.css", "menu.js"} {
		if err := copyFile(filepath.Join(root, "docs/site", name), filepath.Join(out, name)); err != nil {
			return err
		}
	}
	for from, to := range r.files {
		if err := copyFile(filepath.Join(root, from), filepath.Join(out, to)); err != nil {
			return err
		}
	}
	if broken := brokenLinks(out); len(broken) > 0 {
		return fmt.Errorf("links that lead nowhere:\n  %s", strings.Join(broken, "\n  "))
	}
	return nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
