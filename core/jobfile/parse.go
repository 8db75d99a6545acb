package jobfile

import (
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// File is a job file that was read.
type File struct {
	Jobs []*Job // in the order in which they stand

	files map[string]*hcl.File
}

// Job is a job of a file.
type Job struct {
	Spec   cluster.JobSpec // with its defaults
	Ranges hcltext.Ranges  // where everything stood, by the paths of cluster.Problem
}

// Parse reads a job file, which is JSON if it begins with a brace. Diagnostics say everything that is wrong with it, in the order of their places; only if
// they have no errors may the jobs be used. The file is never nil, so that it can write the diagnostics.
func Parse(filename string, src []byte) (*File, hcl.Diagnostics) {
	parsed, diags := hcltext.Parse(filename, src)
	file := &File{files: map[string]*hcl.File{filename: parsed}}
	if diags.HasErrors() {
		return file, diags
	}
	start := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
	var root hcltext.Decoder
	root.Body(parsed.Body, "", start, hcltext.Fields{Blocks: map[string]hcltext.BlockField{
		"job": {Label: "name", Repeated: true, Read: func(b hcltext.Block) {
			job, found := parseJob(b)
			file.Jobs = append(file.Jobs, job)
			diags = append(diags, found...)
		}},
	}})
	diags = append(diags, root.Diags...)
	if len(file.Jobs) == 0 && !diags.HasErrors() {
		diags = append(diags, hcltext.Error(start, "No job in the file", `A job file has at least one block: job "name" { task { … } }.`))
	}
	hcltext.Sort(diags)
	return file, diags
}

// Write writes diagnostics about the file, each with the lines that it is about.
func (f *File) Write(w io.Writer, diags hcl.Diagnostics, look hcltext.Look) error {
	return hcltext.Write(w, f.files, diags, look)
}

func parseJob(b hcltext.Block) (*Job, hcl.Diagnostics) {
	d := &draft{}
	d.say(func(s *cluster.JobSpec) { s.Name = b.Label })
	d.Body(b.Body, "", b.At, d.jobFields())
	d.Ranges["name"] = b.Named
	d.finishPlugins()
	job := &Job{Spec: d.spec(), Ranges: d.Ranges}
	for _, p := range job.Spec.Validate() {
		if !d.Failed(p.Path) {
			d.Diags = append(d.Diags, job.diagnose(p))
		}
	}
	return job, d.Diags
}

// Diagnose points at the lines of what is wrong with the job, or at the job if a problem's place is not in the file.
func (j *Job) Diagnose(problems []cluster.Problem) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, p := range problems {
		diags = append(diags, j.diagnose(p))
	}
	hcltext.Sort(diags)
	return diags
}

func (j *Job) diagnose(p cluster.Problem) *hcl.Diagnostic {
	at, ok := j.Ranges.Find(p.Path)
	if !ok {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: p.Summary, Detail: fmt.Sprintf("%s (at %s)", p.Detail, p.Path)}
	}
	return hcltext.Error(at, p.Summary, p.Detail)
}
