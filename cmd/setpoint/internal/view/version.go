package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// JobHistory is the versions of a job that are kept, oldest first, as `job history` prints them.
type JobHistory struct {
	Job      string        `json:"job"`
	Version  uint64        `json:"version"` // the newest
	Versions []PastVersion `json:"versions"`
}

// PastVersion is one version of a job, with what it changed.
type PastVersion struct {
	Version     uint64       `json:"version"`
	SpecVersion uint64       `json:"spec_version"`
	Created     Moment       `json:"created"`
	By          string       `json:"by"` // empty: the server itself
	Reason      string       `json:"reason"`
	Slots       int          `json:"slots"`   // wanted slots that are to run it
	Against     uint64       `json:"against"` // the version before, as far as it is kept; 0: none is
	Changes     []SpecChange `json:"changes"` // of what was asked for, from the version before
}

// JobComparison is in what two versions of a job differ.
type JobComparison struct {
	Job     string       `json:"job"`
	From    uint64       `json:"from"`
	To      uint64       `json:"to"`
	Changes []SpecChange `json:"changes"`
}

// SpecChange is one thing that differs between what two versions ask for. From or To is absent where there is nothing.
type SpecChange struct {
	Path string          `json:"path"` // the way through the job's blocks, such as task.env.MESSAGE
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
}

// OfJobHistory returns the view of a job's versions.
func OfJobHistory(j *apiv1.Job) JobHistory {
	out := JobHistory{Job: j.GetName(), Version: j.GetVersion(), Versions: []PastVersion{}}
	var before *apiv1.JobVersion
	for _, v := range j.GetVersions() {
		p := PastVersion{
			Version: v.GetVersion(), SpecVersion: v.GetSpecVersion(), Created: moment(v.GetCreated()), By: v.GetBy(), Reason: v.GetReason(), Changes: []SpecChange{},
		}
		for _, s := range j.GetSlots() {
			if !s.GetUnwanted() && s.GetVersion() == v.GetVersion() {
				p.Slots++
			}
		}
		if before != nil {
			p.Against, p.Changes = before.GetVersion(), changes(ofJobSpec(before.GetSpec()), ofJobSpec(v.GetSpec()))
		}
		out.Versions = append(out.Versions, p)
		before = v
	}
	return out
}

// Compare returns in what two versions of a job differ; false if one of them is not kept.
func Compare(j *apiv1.Job, from, to uint64) (JobComparison, bool) {
	find := func(version uint64) *apiv1.JobVersion {
		i := slices.IndexFunc(j.GetVersions(), func(v *apiv1.JobVersion) bool { return v.GetVersion() == version })
		if i < 0 {
			return nil
		}
		return j.GetVersions()[i]
	}
	a, b := find(from), find(to)
	if a == nil || b == nil {
		return JobComparison{}, false
	}
	return JobComparison{Job: j.GetName(), From: from, To: to, Changes: changes(ofJobSpec(a.GetSpec()), ofJobSpec(b.GetSpec()))}, true
}

// changes returns in what two specifications differ, by path.
func changes(from, to *JobSpec) []SpecChange {
	a, b := flat(from), flat(to)
	paths := make([]string, 0, len(a)+len(b))
	for path := range a {
		paths = append(paths, path)
	}
	for path := range b {
		if _, both := a[path]; !both {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, inOrder)
	out := []SpecChange{}
	for _, path := range paths {
		if !reflect.DeepEqual(a[path], b[path]) {
			out = append(out, SpecChange{Path: path, From: encoded(a[path]), To: encoded(b[path])})
		}
	}
	return out
}

// inOrder compares paths; elements of a list are in the order of their numbers.
func inOrder(a, b string) int {
	nameA, numberA, listA := strings.Cut(strings.TrimSuffix(a, "]"), "[")
	nameB, numberB, listB := strings.Cut(strings.TrimSuffix(b, "]"), "[")
	if listA && listB && nameA == nameB {
		return cmp.Or(cmp.Compare(len(numberA), len(numberB)), cmp.Compare(numberA, numberB))
	}
	return cmp.Compare(a, b)
}

// encoded returns a value as JSON, null if there is none.
func encoded(value any) json.RawMessage {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(fmt.Sprintf("a value that came from JSON: %v", err))
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

// flat returns what a specification says by path. What is empty says nothing.
func flat(s *JobSpec) map[string]any {
	var tree map[string]any
	if err := json.Unmarshal(encoded(s), &tree); err != nil {
		panic(fmt.Sprintf("a job that was encoded as JSON: %v", err))
	}
	tree["max_unavailable"] = any(s.MaxUnavailable.Count)
	if p := s.MaxUnavailable.Percent; p != 0 {
		tree["max_unavailable"] = fmt.Sprintf("%d%%", p)
	}
	out := map[string]any{}
	flatten(out, "", tree)
	return out
}

func flatten(out map[string]any, path string, value any) {
	switch v := value.(type) {
	case nil:
	case string:
		if v != "" {
			out[path] = v
		}
	case map[string]any:
		for key, x := range v {
			flatten(out, join(path, key), x)
		}
	case []any:
		for i, x := range v { // blocks with a label are told apart by it, as in a job file
			label := fmt.Sprintf("[%d]", i)
			if block, is := x.(map[string]any); is {
				label = "." + cmp.Or(text(block["name"]), text(block["attribute"]))
				delete(block, "name")
				delete(block, "attribute")
			}
			flatten(out, path+label, x)
		}
	default:
		out[path] = v
	}
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
