// Package hcltext is what the daemon's configuration and job files have in common: parsing HCL and its JSON form within limits, reading attributes as
// durations, sizes and the like, remembering where everything stood, and writing diagnostics with a snippet of the file.
//
// Every mistake is a diagnostic with a position, and reading goes on after one, so that all are reported at once.
//
// It imports hcl, cty, sdk/cluster and the standard library.
package hcltext
