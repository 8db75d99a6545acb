package sim_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/sim"
)

// TestSeedsThatFailedOnce plays every game that ever found a fault. A file of testdata/seeds is named for what was at fault; its lines are seeds, followed by
// "large" for a game with hundreds of nodes, "early" for one of the early kind, "ahead" for one with turns decided ahead and "net" for one with the net, and comments after #.
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
			k, err := kind(words)
			if err != nil {
				t.Fatalf("%s:%d: %v", name, n, err)
			}
			t.Run(fmt.Sprintf("%s/%d", strings.TrimSuffix(filepath.Base(name), ".txt"), k.Seed), func(t *testing.T) {
				t.Parallel()
				play(t, k)
			})
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// kind reads which game a line is about.
func kind(words []string) (k sim.Kind, err error) {
	k.Seed, err = strconv.ParseUint(words[0], 10, 64)
	k.NoNet = true
	for _, w := range words[1:] {
		switch w {
		case "large":
			k.Large = true
		case "early":
			k.Early = true
		case "ahead":
			k.Ahead = true
		case "net":
			k.NoNet = false
		default:
			err = fmt.Errorf("want SEED [large] [early] [ahead] [net], got %q", words)
		}
	}
	return k, err
}
