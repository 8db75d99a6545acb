package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	linkTo   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchorOf = regexp.MustCompile(`id="([^"]*)"`)
)

// brokenLinks returns the links of a site that lead nowhere within it, and those that a page would load from elsewhere.
func brokenLinks(dir string) []string {
	anchors, texts := map[string]map[string]bool{}, map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(files) == 0 {
		return []string{fmt.Sprintf("%s has no pages", dir)}
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return []string{err.Error()}
		}
		name := filepath.Base(f)
		texts[name], anchors[name] = string(b), map[string]bool{}
		for _, m := range anchorOf.FindAllStringSubmatch(string(b), -1) {
			anchors[name][m[1]] = true
		}
	}
	var broken []string
	for name, text := range texts {
		for _, m := range linkTo.FindAllStringSubmatch(text, -1) {
			to, fragment, _ := strings.Cut(m[1], "#")
			loads := strings.HasPrefix(m[0], "src")
			switch {
			case strings.HasPrefix(to, "https://") && !loads, strings.HasPrefix(to, "data:"):
				continue
			case to == "":
				to = name
			}
			if _, page := texts[to]; page {
				if fragment != "" && !anchors[to][fragment] {
					broken = append(broken, fmt.Sprintf("%s: %s", name, m[1]))
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, to)); err != nil {
				broken = append(broken, fmt.Sprintf("%s: %s", name, m[1]))
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}
