// Package dashboard plays the dashboard in a real browser: in front of the real binary, and in front of states that are made up because they are large.
package dashboard
