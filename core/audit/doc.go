// Package audit writes down who changed what, and who was refused: one JSON object a line, in files of which the oldest go. What Write has returned for is on the disk.
//
// Owner: the server. The package imports the standard library only.
package audit
