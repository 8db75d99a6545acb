package sim_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/sim"
)

// tally adds up what games have seen, so that it is noticed if they see less than before.
type tally struct {
	of    int
	began time.Time

	mu     sync.Mutex // guards what follows
	seen   map[string]int
	failed int
}

// every is after how many games progress is told.
const every = 50

func (s *tally) add(g *sim.Game, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, n := range g.Played() {
		s.seen[what] += n
	}
	if failed {
		s.failed++
	}
	if n := s.seen["games"]; *progress && n%every == 0 {
		fmt.Printf("%d of %d games in %s: %d turns, %d failed\n", n, s.of, time.Since(s.began).Round(time.Second), s.seen["turns"], s.failed)
	}
}

func (s *tally) print() {
	fmt.Println("what the games have seen:")
	for _, what := range slices.Sorted(maps.Keys(s.seen)) {
		fmt.Printf("  %9d  %s\n", s.seen[what], what)
	}
}

// enough is how many games seen.txt is about.
const enough = 50

const seenFile = "testdata/seen.txt"

// check compares what the games have seen with how often each thing has to be seen in the first games, as seen.txt says: a fifth of what there was when that was
// written. A thing that hardly ever happens is not in there.
func (s *tally) check(t *testing.T) {
	b, err := os.ReadFile(seenFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		number, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number == "#" || number == "" {
			continue
		}
		least, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%s: want NUMBER WHAT, got %q", seenFile, line)
		}
		if got := s.seen[what]; got < least {
			t.Errorf("in %d games %q was seen %d times, and should be seen %d times: they have become tame", s.seen["games"], what, got, least)
		}
	}
}

// write makes seen.txt of what the games have seen.
func (s *tally) write(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "# How often the first %d games have to see what: a fifth of what they saw. Written by go test -run 'TestChaos$' -update.\n", enough)
	for _, what := range slices.Sorted(maps.Keys(s.seen)) {
		if n := s.seen[what]; n > 2 {
			fmt.Fprintf(&b, "%d %s\n", max(1, n/5), what)
		}
	}
	if err := os.WriteFile(seenFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
