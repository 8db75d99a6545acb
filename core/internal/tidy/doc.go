// Package tidy holds the tests of the source itself: which package may import which (layers_test.go has the table), that decisions are
// pure, and that files and functions stay short. It has no code of its own and nothing imports it.
package tidy
