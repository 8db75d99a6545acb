package sim_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSeedsThatFailedOnce plays every game that ever found a fault. A file of testdata/seeds is named for what was at fault; its lines are seeds, followed by
// "large" for a game with hundreds of nodes, and comments after #.
func TestSeedsThatFailedOnce(t *testing.T) {
	files, err := filepath.Glob("testdata/seeds/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			text, _, _ := strings.Cut(lines.Text(), "#")
			words := strings.Fields(text)
			if len(words) == 0 {
				continue
			}
			seed, err := strconv.ParseUint(words[0], 10, 64)
			if err != nil || len(words) > 2 || len(words) == 2 && words[1] != "large" {
				t.Fatalf("%s:%d: want SEED [large], got %q", name, n, text)
			}
			t.Run(fmt.Sprintf("%s/%d", strings.TrimSuffix(filepath.Base(name), ".txt"), seed), func(t *testing.T) {
				t.Parallel()
				play(t, seed, len(words) == 2)
			})
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
