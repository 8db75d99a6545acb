package driver

import (
	"io"
	"path"
	"slices"
	"strings"
)

// ExecRequest says what to run inside a task, and where its streams lead.
type ExecRequest struct {
	// Command is the program and its arguments. A program without a slash is looked up in the task's PATH.
	Command []string
	// Env is added to the task's environment, and wins over it.
	Env map[string]string
	// Dir is the working directory, an absolute path; empty: the task's.
	Dir string
	// User is who the command runs as, in the words of Spec.User; empty: who the task runs as.
	User string
	// TTY gives the command a terminal of that size, of which it is in control; nil: none. With a terminal all output comes as Stdout.
	TTY *WindowSize
	// Resize has further sizes of the terminal; nil: it stays as it is. It need not be closed.
	Resize <-chan WindowSize
	// Stdin is the command's standard input; nil: it is empty. It is closed before Exec returns, which must end a Read that waits. At its end the command sees
	// the end of its input; with a terminal, what a person would type for that.
	Stdin io.ReadCloser
	// Stdout and Stderr take the output. A write may wait as long as the context has not ended, and the command then waits too; an error of it ends the command.
	Stdout, Stderr io.Writer
	// Started is called once the command runs, before any output is written; nil: nobody wants to know.
	Started func()
}

// WindowSize is that of a terminal, in characters. A zero value means that nobody knows.
type WindowSize struct {
	Rows, Columns uint16
}

// Problem returns what of the request no driver could do, or "".
func (r *ExecRequest) Problem() string {
	hasZero := func(s string) bool { return strings.ContainsRune(s, 0) }
	switch {
	case len(r.Command) == 0 || r.Command[0] == "":
		return "there is no command"
	case slices.ContainsFunc(r.Command, hasZero):
		return "the command holds a zero byte"
	case r.Dir != "" && (!path.IsAbs(r.Dir) || hasZero(r.Dir)):
		return "the working directory " + r.Dir + " is not an absolute path"
	}
	for name, value := range r.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || hasZero(value) {
			return "the environment variable " + name + " cannot be: its name or value is not possible"
		}
	}
	return ""
}

// ExecRefusedError says that a command cannot run inside a task: nothing ran, and the same request would be refused again.
type ExecRefusedError struct {
	// Code is one of the Reject constants.
	Code string
	// Reason is for people: what is wrong with which value.
	Reason string
}

// Error is the reason.
func (e *ExecRefusedError) Error() string { return e.Reason }
