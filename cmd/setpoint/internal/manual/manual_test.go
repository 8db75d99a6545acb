package manual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "Do things"}
	root.PersistentFlags().StringP("output", "o", "table", "the `form`")
	run := &cobra.Command{
		Use: "run FILE", Short: "Run a file", Long: "Runs a file.\n\n.hidden files are \"run\", too:\n  also C:\\x.", Example: "  tool run x.hcl --dry-run\n  .tool",
		Run: func(*cobra.Command, []string) {},
	}
	run.Flags().Bool("dry-run", false, "only try it")
	hidden := &cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(run, hidden)
	return root
}

func TestPage(t *testing.T) {
	root := tree()
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `.TH "TOOL\-RUN" "1" "" "Setpoint v1" "Setpoint"
.SH NAME
tool\-run \- Run a file
.SH SYNOPSIS
.B "tool run FILE [flags]"
.SH DESCRIPTION
Runs a file.
.PP
\&.hidden files are "run", too:
.br
also C:\ex.
.SH OPTIONS
.TP
.B "\-\-dry\-run"
only try it
.SH GLOBAL OPTIONS
.TP
.B "\-o, \-\-output form"
the form
.SH EXAMPLES
.nf
tool run x.hcl \-\-dry\-run
\&.tool
.fi
.SH EXIT STATUS
0 done, 1 error, 2 refused input, 3 stalled or timed out, 4 failed or rolled back.
.SH SEE ALSO
tool(1)
`
	if got := Page(run, "v1"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	n, err := Write(dir, tree(), "v1")
	if err != nil || n != 2 {
		t.Fatalf("wrote %d pages: %v; want 2", n, err)
	}
	for _, name := range []string{"tool.1", "tool-run.1"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
