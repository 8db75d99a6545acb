package jobfile

import (
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

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

// Options say what a job file is given.
type Options struct {
	Variables     []Given           // of several values the last counts
	VariableFiles []VariableFile    // count where Variables say nothing; the later before the earlier
	Env           map[string]string // SETPOINT_VAR_NAME counts where neither says anything
	// ReadFile reads for the function file. It is given a path relative to the job file, and decides what may be read; nil: nothing may.
	ReadFile func(path string) ([]byte, error)
}

// Parse reads a job file that is given nothing.
func Parse(filename string, src []byte) (*File, hcl.Diagnostics) {
	return Read(filename, src, Options{})
}

// Read reads a job file, which is JSON if it begins with a brace. Diagnostics say everything that is wrong with it, in the order of their places; only if
// they have no errors may the jobs be used. The file is never nil, so that it can write the diagnostics.
func Read(filename string, src []byte, opts Options) (*File, hcl.Diagnostics) {
	parsed, diags := hcltext.Parse(filename, src)
	file := &File{files: map[string]*hcl.File{filename: parsed}}
	if diags.HasErrors() {
		return file, diags
	}
	start := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
	templates := isNative(parsed.Body) || declares(src)
	if templates && !isNative(parsed.Body) {
		if diags = checkTemplates(src, start); diags.HasErrors() {
			return file, diags
		}
	}
	r := &root{
		filename: filename, files: file.files, calls: functions(opts.ReadFile), values: make(map[string]cty.Value), locals: make(map[string]local),
	}
	r.read(parsed.Body, start, opts)
	diags = append(diags, r.Diags...)
	scope := r.Scope
	if !templates {
		scope = nil
	}
	for _, b := range r.jobs {
		job, found := parseJob(b, scope)
		file.Jobs = append(file.Jobs, job)
		diags = append(diags, found...)
	}
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

func parseJob(b hcltext.Block, scope *hcltext.Scope) (*Job, hcl.Diagnostics) {
	d := &draft{}
	d.Scope = scope
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

// New returns jobs that were read from files of another kind, which are needed to write diagnostics about them.
func New(files map[string]*hcl.File, jobs []*Job) *File { return &File{Jobs: jobs, files: files} }
