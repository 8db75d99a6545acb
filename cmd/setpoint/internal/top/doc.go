// Package top shows lists that change in a terminal: sections below each other with a cursor, details of what the cursor is on, and a filter. It knows nothing of what is
// listed; commands give it rows.
//
// It imports bubbletea, the package console and the standard library only.
package top
