package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Job is a job file in short. What is zero has the workload's defaults: one replica of a sim task with 0.1 CPU that starts in 200 ms and stops in 200 ms.
type Job struct {
	Name           string
	Type           string // replicated if empty
	Count          int    // 1 if 0
	CPU            float64
	Memory         int64          // MiB
	Units          map[string]int // named units
	Constraints    []string
	MaxUnavailable string            // as in the file: 2, or "100%" with quotes
	Port           int               // static; 0: none
	Sim            map[string]string // settings of the sim driver, over the defaults
	Command        []string          // then the process driver runs it
	Grace          string            // of the stop; 10s if empty
	More           string            // further lines of the job block
	MoreTask       string            // further lines of the task block
}

func (j Job) withDefaults() Job {
	if j.Type == "" {
		j.Type = "replicated"
	}
	if j.Count == 0 {
		j.Count = 1
	}
	if j.CPU == 0 {
		j.CPU = 0.1
	}
	if j.Grace == "" {
		j.Grace = "10s"
	}
	return j
}

// HCL returns the job as a file has it.
func (j Job) HCL() string {
	j = j.withDefaults()
	var b strings.Builder
	fmt.Fprintf(&b, "job %q {\n  type = %q\n", j.Name, j.Type)
	if j.Type == "replicated" || j.Type == "batch" {
		fmt.Fprintf(&b, "  count = %d\n", j.Count)
	}
	if len(j.Constraints) > 0 {
		fmt.Fprintf(&b, "  constraints = %s\n", list(j.Constraints))
	}
	if j.MaxUnavailable != "" {
		fmt.Fprintf(&b, "  max_unavailable = %s\n", j.MaxUnavailable)
	}
	if !strings.Contains(j.More, "update {") {
		b.WriteString("  update {\n    monitor = \"3s\"\n  }\n")
	}
	b.WriteString(j.More + "\n  task {\n")
	if len(j.Command) > 0 {
		fmt.Fprintf(&b, "    driver = \"process\"\n    command = %s\n", list(j.Command))
	} else {
		settings := map[string]string{"start_delay": "200ms", "stop_delay": "200ms"}
		maps.Copy(settings, j.Sim)
		b.WriteString("    driver = \"sim\"\n    config = {\n")
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(&b, "      %s = %q\n", key, settings[key])
		}
		b.WriteString("    }\n")
	}
	fmt.Fprintf(&b, "    resources {\n      cpu = %g\n", j.CPU)
	if j.Memory > 0 {
		fmt.Fprintf(&b, "      memory = \"%dMiB\"\n", j.Memory)
	}
	if len(j.Units) > 0 {
		fmt.Fprintf(&b, "      units = {%s}\n", units(j.Units))
	}
	fmt.Fprintf(&b, "    }\n    stop {\n      grace = %q\n    }\n", j.Grace)
	if j.Port != 0 {
		fmt.Fprintf(&b, "    port \"main\" {\n      static = %d\n    }\n", j.Port)
	}
	b.WriteString(j.MoreTask + "\n  }\n}\n")
	return b.String()
}

// units writes named units as the content of a map.
func units[N int | int64](units map[string]N) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(units)) {
		out = append(out, fmt.Sprintf("%s = %d", name, units[name]))
	}
	return strings.Join(out, ", ")
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (j Job) milliCPU() int64 { return int64(j.withDefaults().CPU*1000 + 0.5) }

func (j Job) startFirst() bool { return strings.Contains(j.More, "start-first") }
