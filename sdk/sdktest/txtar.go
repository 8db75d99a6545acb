package sdktest

import "strings"

// archive is a text file in parts, in the format of golang.org/x/tools/txtar: a comment, and after each line "-- NAME --" a part.
type archive struct {
	comment string
	parts   []part
}

type part struct{ name, text string }

func parseArchive(text string) archive {
	var out archive
	current := &out.comment
	for line := range strings.Lines(text) {
		if name, ok := partName(line); ok {
			out.parts = append(out.parts, part{name: name})
			current = &out.parts[len(out.parts)-1].text
			continue
		}
		*current += line
	}
	return out
}

// partName returns the name in a line that begins a part.
func partName(line string) (string, bool) {
	line = strings.TrimRight(line, "\r\n")
	name, ok := strings.CutPrefix(line, "-- ")
	if ok {
		name, ok = strings.CutSuffix(name, " --")
	}
	return strings.TrimSpace(name), ok && strings.TrimSpace(name) != ""
}

func (a archive) String() string {
	var b strings.Builder
	b.WriteString(whole(a.comment))
	for _, p := range a.parts {
		b.WriteString("-- " + p.name + " --\n" + whole(p.text))
	}
	return b.String()
}

// whole ends text with a line break if it has any.
func whole(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
