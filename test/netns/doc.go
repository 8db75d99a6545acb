// Package netns plays a server and three agents, each in a network namespace of its own with its own address, and does to their cables what happens to real ones.
// The tests are skipped, and say why, where namespaces cannot be made. They touch nothing of the machine's own network.
package netns
