package compose

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const docs = "../../docs/COMPOSE.md"

// TestDocument holds the table of docs/COMPOSE.md against the table of fates.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- begin keys -->\n", "<!-- end keys -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("docs/COMPOSE.md has no place for the table")
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/COMPOSE.md is not current; go test ./core/compose -run TestDocument -update writes it:\n%s", diff)
	}
}

func table() string {
	var out strings.Builder
	out.WriteString("| key | | as what, or why not |\n|---|---|---|\n")
	for _, f := range fates {
		if f.says == "" {
			continue
		}
		does := map[does]string{kept: "kept", hint: "note", lost: "not kept"}[f.does]
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", strings.ReplaceAll(f.key, ".*", "[]"), does, f.says)
	}
	return out.String()
}

// TestFates holds that the table is in order, that no row hides another, and that keys are found by it.
func TestFates(t *testing.T) {
	for i, f := range fates {
		if i > 0 && f.key <= fates[i-1].key {
			t.Errorf("%s does not belong behind %s", f.key, fates[i-1].key)
		}
		if strings.ContainsAny(f.says, "|\n") || strings.HasSuffix(f.says, ".") {
			t.Errorf("%s says %q", f.key, f.says)
		}
		steps := strings.Split(strings.ReplaceAll(f.key, "*", "0"), ".")
		if got, found, _ := fateOf(steps); !found || got.key != f.key {
			t.Errorf("%s is found in the row of %q", f.key, got.key)
		}
		if parent := steps[:len(steps)-1]; len(parent) > 0 {
			if _, found, inside := fateOf(parent); found || !inside {
				t.Errorf("what %s stands in has a row of its own", f.key)
			}
		}
		if got, found, inside := fateOf(append(slices.Clone(steps), "deeper")); !found || inside || got.key != f.key {
			t.Errorf("what is in %s has not its fate", f.key)
		}
	}
}
