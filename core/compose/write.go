package compose

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/setpointd/setpoint/core/jobfile"
)

// Format writes a job as a job file. What was lost of its service stands in comments, at the place where it would belong.
func (f *File) Format(job *jobfile.Job) ([]byte, error) {
	text, err := jobfile.Format(job.Spec)
	if err != nil {
		return nil, err
	}
	name := "job.hcl"
	read, diags := jobfile.Parse(name, text)
	if diags.HasErrors() || len(read.Jobs) != 1 {
		return text, nil // a job with mistakes, which nobody is given
	}
	lines := strings.Split(string(text), "\n")
	before := make(map[int][]string)
	for _, l := range f.of(job) {
		n, inside := placeOf(l.Key), 0
		at, _ := read.Jobs[0].Ranges.Find(n)
		if header := lines[at.Start.Line-1]; strings.HasSuffix(header, "{") && !strings.Contains(header, "= {") {
			inside = 1
		}
		line := at.Start.Line - 1 + inside
		before[line] = append(before[line], comment(l))
	}
	var out bytes.Buffer
	for i, line := range lines {
		for _, each := range before[i] {
			fmt.Fprintf(&out, "%s\n", each)
		}
		out.WriteString(line)
		if i < len(lines)-1 {
			out.WriteByte('\n')
		}
	}
	return hclwrite.Format(out.Bytes()), nil
}

// comment writes a loss as a comment of one line.
func comment(l Loss) string {
	word := "Not kept"
	if l.Hint {
		word = "Note"
	}
	text := fmt.Sprintf("# %s: %s (%s:%d): %s", word, l.Key, l.At.Filename, l.At.Start.Line, l.Why)
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
}

// of are the losses of a job's service.
func (f *File) of(job *jobfile.Job) []Loss {
	var out []Loss
	for _, l := range f.Losses {
		if l.Service != "" && l.Service == f.services[job] {
			out = append(out, l)
		}
	}
	return out
}

// placeOf is the path in a job at which a key's meaning would stand.
func placeOf(key string) string {
	for _, each := range [][2]string{
		{"deploy.update_config", "update"},
		{"deploy.rollback_config", "update"},
		{"deploy.restart_policy", "restart"},
		{"restart", "restart"},
		{"deploy.resources", "task.resources"},
		{"healthcheck", "task.health"},
		{"environment", "task.env"},
		{"ports", "task.port"},
		{"volumes", "task.config"},
		{"tmpfs", "task.config"},
		{"logging", "task.config"},
		{"image", "task.config"},
		{"pull_policy", "task.config"},
		{"command", "task.command"},
		{"entrypoint", "task.command"},
		{"deploy.placement.constraints", "plugin[\"constraint\"].constraints"},
		{"deploy.placement.preferences", "spread"},
		{"deploy.labels", "labels"},
		{"deploy", ""},
		{"scale", ""},
	} {
		if key == each[0] || strings.HasPrefix(key, each[0]+".") {
			return each[1]
		}
	}
	return "task"
}
