// Package impure has one fault of each kind that pure packages must not have.
package impure

import (
	"maps"
	"os" // want pure code does not import os
	"slices"
	"time"
)

type table struct{ size int }

var (
	count  int
	byName = map[string]int{}
	state  table
)

func clock() (time.Time, func() time.Time) {
	now := time.Now                         // want time.Now in pure code
	return time.Now().Add(time.Second), now // want time.Now in pure code
}

func order(m map[string]int) []string {
	var keys []string
	for k := range m { // want ranges over a map
		keys = append(keys, k)
	}
	for k := range maps.Keys(m) { // want maps.Keys has no order
		keys = append(keys, k)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		keys = append(keys, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[a] - m[b] }) {
		keys = append(keys, k)
	}
	return keys
}

func globals() {
	count++               // want assigns to the package variable count
	byName["x"] = 1       // want assigns to the package variable byName
	state.size = 2        // want assigns to the package variable state
	count := len(os.Args) // a local one
	count++
	_ = count
}

func threads(c chan int) {
	go globals() // want pure code starts no goroutine
	c <- 1       // want pure code does not communicate
	select {}    // want pure code does not communicate
}
