// Package jobfile is the job language: it reads jobs from HCL and from the same in JSON, and writes a job as HCL.
//
// A file has one or more job blocks. What a job does not say gets its default. Everything wrong with a file is reported at once, each mistake with its
// line; the job remembers where everything stood, so that what a server or a plugin finds wrong later can be pointed at as well.
//
// Jobs may speak of variables that the file declares and somebody gives values, of locals, and call a fixed set of functions (functions.go). All that can
// stand in a file is told in reference.go, from which docs/JOBS.md and the JSON Schema are made; a test holds it against what the reader takes.
//
// It imports hcl, sdk/cluster and core/hcltext.
package jobfile
