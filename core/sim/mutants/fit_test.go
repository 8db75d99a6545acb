package main

import "testing"

// What a mutation replaces is there, once: code that moves takes its mutations along.
func TestMutationsFit(t *testing.T) {
	if err := fit("../../.."); err != nil {
		t.Error(err)
	}
}
