package view

import "strconv"

// Names returns what other commands call that which a view, or a list of views, is of. What has no name has none.
func Names(value any) []string {
	switch v := value.(type) {
	case []Job:
		return all(v, func(j Job) string { return j.Name })
	case Job:
		return []string{v.Name}
	case JobWhy:
		return []string{v.Job}
	case JobHistory:
		return all(v.Versions, func(x PastVersion) string { return strconv.FormatUint(x.Version, 10) })
	case []Task:
		return all(v, func(t Task) string { return t.ID })
	case Task:
		return []string{v.ID}
	case []Node:
		return all(v, func(n Node) string { return n.Name })
	case Node:
		return []string{v.Name}
	case []Plugin:
		return all(v, func(p Plugin) string { return p.Name })
	case PluginDetail:
		return []string{v.Name}
	case []Secret:
		return all(v, func(s Secret) string { return s.Name })
	case Secret:
		return []string{v.Name}
	case []Token:
		return all(v, func(t Token) string { return t.ID })
	case []Certificate:
		return all(v, func(c Certificate) string { return c.Serial })
	case []Sink:
		return all(v, func(s Sink) string { return s.Name })
	case []Stall:
		return all(v, stallName)
	}
	return nil
}

// stallName names what waits: a task or a slot as `task why` takes it, a job, node or plugin by its name.
func stallName(s Stall) string {
	switch {
	case s.Subject.Kind == "node" && s.Node != "":
		return s.Node
	case s.Subject.Kind == "update":
		return s.Job
	}
	return s.Subject.ID
}

// all returns a name for each, once if several follow each other that have the same.
func all[T any](in []T, name func(T) string) []string {
	var out []string
	for _, x := range in {
		if n := name(x); n != "" && (len(out) == 0 || out[len(out)-1] != n) {
			out = append(out, n)
		}
	}
	return out
}
