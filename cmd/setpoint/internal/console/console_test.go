package console

import (
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	tests := []struct {
		name  string
		style Style
		want  string
	}{
		{"plain", Style{}, "NAME  STATE\nn1    ready\nn200  -\n"},
		{"colour", Style{Color: true}, "\x1b[2mNAME\x1b[0m  \x1b[2mSTATE\x1b[0m\nn1    \x1b[32mready\x1b[0m\nn200  -\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable("NAME", "STATE")
			table.Row("n1", tt.style.Green("ready"))
			table.Row("n200", "")
			var out strings.Builder
			table.Write(&out, tt.style)
			if out.String() != tt.want {
				t.Errorf("got\n%q, want\n%q", out.String(), tt.want)
			}
		})
	}
}

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "häuser": 6, "\x1b[31mred\x1b[0m": 3, "\x1b[1m\x1b[31mx\x1b[0m\x1b[0my": 2, "\x1b[cut": 5, "日本": 4, "e\u0301": 1,
	} {
		if got := Width(text); got != want {
			t.Errorf("Width(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"},
		{0, "0s"},
		{999 * time.Millisecond, "0s"},
		{45 * time.Second, "45s"},
		{70 * time.Second, "1m10s"},
		{4 * time.Minute, "4m"},
		{12*time.Minute + 5*time.Second, "12m"},
		{3*time.Hour + 59*time.Minute, "3h59m"},
		{53 * time.Hour, "2d5h"},
		{4000 * time.Hour, "166d"},
	} {
		if got := Age(tt.d); got != tt.want {
			t.Errorf("Age(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
	if got := Since(time.Unix(100, 0), time.Time{}); got != "-" {
		t.Errorf("since never: %q, want a dash", got)
	}
	if got := Since(time.Unix(100, 0), time.Unix(40, 0)); got != "1m" {
		t.Errorf("since a minute: %q, want 1m", got)
	}
}

func TestAmounts(t *testing.T) {
	for milli, want := range map[int64]string{0: "0", 500: "0.5", 4000: "4", 1250: "1.25", 1: "0.001", -1500: "-1.5", -100: "-0.1"} {
		if got := CPU(milli); got != want {
			t.Errorf("CPU(%d) = %q, want %q", milli, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1KiB", 256 << 20: "256MiB", 3 << 29: "1.5GiB", 8 << 30: "8GiB", -(1 << 20): "-1MiB", 1 << 62: "4096PiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	if got := Count(1, "task") + ", " + Count(0, "task") + ", " + Count(2, "task"); got != "1 task, 0 tasks, 2 tasks" {
		t.Errorf("got %q", got)
	}
}

func TestProgressWithoutTerminal(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out)
	p.Show("1 of 3")
	p.Show("1 of 3")
	p.Keep("something happened")
	p.Show("3 of 3")
	p.End()
	if want := "1 of 3\nsomething happened\n3 of 3\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestProgressOnTerminal(t *testing.T) {
	var out strings.Builder
	p := &Progress{w: &out, terminal: true, columns: 8}
	p.Show("1 of 3")
	p.Show("1 of 3")
	p.Keep("note")
	p.Show("12345678")
	p.End()
	p.End()
	if want := "\r\x1b[K1 of 3" + "\r\x1b[Knote\n1 of 3" + "\r\x1b[K123456…" + "\r\x1b[K"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestIndent(t *testing.T) {
	if got := Indent("  ", "a\nb\n"); got != "  a\n  b" {
		t.Errorf("got %q", got)
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "short": "short", "häuser häuser": "häuser häu…", "one\ntwo": "one…"} {
		if got := Shorten(text, 10); got != want {
			t.Errorf("Shorten(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 5, "short"},
		{"shorter", 5, "shor…"},
		{"\x1b[31mstalled\x1b[0m", 4, "\x1b[31msta…\x1b[0m"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
	} {
		if got := Cut(tt.text, tt.columns); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.text, tt.columns, got, tt.want)
		}
	}
}

// What a task or a plugin says must not move the cursor, nor break a table.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "one\ntwo\tthree": "one two three", "\x1b[31mred\x1b[0m": "\x1b[31mred\x1b[0m", "\x1b[2Jgone\a": "[2Jgone", "\x1b]0;title\x07": "]0;title",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTableFitsItsWindow(t *testing.T) {
	fill := func() *Table {
		table := NewTable("ID", "NODE", "WHY", "LABELS").Long("WHY", "LABELS")
		table.Row("web-with-a-long-name/1/1234", "n1", "no node can run it (3 nodes: 3 fail)", "zone=a disk=ssd")
		return table
	}
	for _, tt := range []struct {
		columns int
		want    string
	}{
		{0, "web-with-a-long-name/1/1234  n1    no node can run it (3 nodes: 3 fail)  zone=a disk=ssd"},
		{88, "web-with-a-long-name/1/1234  n1    no node can run it (3 nodes: 3 fail)  zone=a disk=ssd"},
		{70, "web-with-a-long-name/1/1234  n1    no node can run i…  zone=a disk=ssd"},
		{60, "web-with-a-long-name/1/1234  n1    no node ca…  zone=a disk…"},
		{20, "web-with-a-long-name/1/1234  n1    no node…  zone=a …"}, // there is no more to give, and an id is not cut
	} {
		var out strings.Builder
		fill().Write(&out, Style{Columns: tt.columns})
		_, row, _ := strings.Cut(out.String(), "\n")
		if strings.TrimSuffix(row, "\n") != tt.want {
			t.Errorf("%d columns: got\n%q, want\n%q", tt.columns, row, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		line    string
		columns int
		want    string
	}{
		{"", 10, ""},
		{"short", 10, "short"},
		{"one two three", 8, "one two|three"},
		{"    one two three", 12, "    one two|    three"},
		{"abcdefghij", 4, "abcd|efgh|ij"},
		{"one two", 0, "one two"},
		{"日本語", 4, "日本|語"},
		{"      a b", 3, "  |a b"},
	} {
		if got := strings.Join(Wrap(tt.line, tt.columns), "|"); got != tt.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}
