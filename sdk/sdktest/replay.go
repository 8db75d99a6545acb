package sdktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// ReplayOptions change how a recording is replayed.
type ReplayOptions struct {
	// Config is what the plugin is configured with, as JSON, instead of what was recorded.
	Config string
	// Patience is how long an answer is waited for; 20 s if zero.
	Patience time.Duration
}

// Replayed says what came of replaying a recording.
type Replayed struct {
	Plugin      string        `json:"plugin"`
	Sessions    int           `json:"sessions"`
	Messages    int           `json:"messages"` // sent to the plugin
	Compared    int           `json:"compared"` // answers
	Differences []Difference  `json:"differences,omitempty"`
	Notes       []string      `json:"notes,omitempty"`
	Took        time.Duration `json:"took_ns"`
}

// Difference is an answer that is another than the recorded one.
type Difference struct {
	At       time.Duration `json:"at_ns"` // in the recording
	Session  int           `json:"session"`
	Revision uint64        `json:"revision"` // of the mirror
	What     string        `json:"what"`     // was asked
	Recorded string        `json:"recorded"`
	Replayed string        `json:"replayed"`
}

// String tells the difference in lines.
func (d Difference) String() string {
	return fmt.Sprintf("%s, session %d, revision %d, %s into the recording\n  recorded: %s\n  replayed: %s", d.What, d.Session, d.Revision,
		d.At.Round(time.Millisecond), d.Recorded, d.Replayed)
}

const (
	maxLine        = 128 << 20 // bytes of one line of a recording
	maxDifferences = 100
)

// errRecording is what is wrong with a recording.
var errRecording = errors.New("the recording cannot be read")

// Replay says to a plugin what was recorded, as fast as it answers, and compares its answers at each revision and to each question with those in the
// recording. The error says that it could not be done: the recording cannot be read, the plugin does not start, or it breaks the protocol.
func Replay(ctx context.Context, target Target, recording io.Reader, opts ReplayOptions) (*Replayed, error) {
	if opts.Patience == 0 {
		opts.Patience = patience
	}
	begun := time.Now()
	lines, err := readRecording(recording)
	if err != nil {
		return nil, err
	}
	running, err := target.Start(ctx)
	if err != nil {
		return nil, fmt.Errorf("start the plugin: %w", err)
	}
	defer running.Kill()
	r := &replay{ctx: ctx, client: running.Client(), opts: opts, out: &Replayed{}, told: map[string]string{}}
	for i := 0; i < len(lines); i++ {
		switch line := lines[i]; line.Kind {
		case kindDescribe:
			err = r.describe(line)
		case kindConfigure:
			err = r.configure(line)
		case kindCore:
			var rest []recorded
			rest, lines = sessionOf(lines[i:], line.Session), withoutSession(lines, line.Session, i)
			err = r.session(rest)
			i--
		case kindPlugin, kindEnd:
		}
		if err != nil {
			return nil, err
		}
	}
	r.out.Took = time.Since(begun)
	return r.out, nil
}

// sessionOf returns the lines of a session, and withoutSession all others from an index on.
func sessionOf(lines []recorded, number int) []recorded {
	return slices.DeleteFunc(slices.Clone(lines), func(l recorded) bool { return l.Session != number })
}

func withoutSession(lines []recorded, number, from int) []recorded {
	rest := slices.DeleteFunc(slices.Clone(lines[from:]), func(l recorded) bool { return l.Session == number })
	return append(slices.Clone(lines[:from]), rest...)
}

func readRecording(from io.Reader) ([]recorded, error) {
	var out []recorded
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, maxLine)
	for n := 1; scanner.Scan(); n++ {
		var line recorded
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", errRecording, n, err)
		}
		out = append(out, line)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecording, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: it is empty", errRecording)
	}
	return out, nil
}

func (l recorded) read(into proto.Message) error {
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(l.Message, into); err != nil {
		return fmt.Errorf("%w: %s at %s: %w", errRecording, l.Kind, l.At, err)
	}
	return nil
}

// replay is one replaying of a recording.
type replay struct {
	ctx    context.Context //nolint:containedctx // of the whole replay
	client pluginv1.PluginClient
	opts   ReplayOptions
	out    *Replayed
	told   map[string]string // the latest difference by what was asked, so that one that lasts is told once
}

// describe notes where the plugin is another than the recorded one.
func (r *replay) describe(line recorded) error {
	var was pluginv1.DescribeResponse
	if err := line.read(&was); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Patience)
	defer cancel()
	is, err := r.client.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "sdktest", Protocol: 1})
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	r.out.Plugin = is.Name + " " + is.Version
	if was.Version != is.Version {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("version %s was recorded, version %s is asked", was.Version, is.Version))
	}
	if !slices.Equal(slices.Sorted(slices.Values(was.Watches)), slices.Sorted(slices.Values(is.Watches))) {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("the recorded plugin watches %v, this one %v: fields that were not recorded are empty", was.Watches, is.Watches))
	}
	return nil
}

func (r *replay) configure(line recorded) error {
	var req pluginv1.ConfigureRequest
	if err := line.read(&req); err != nil {
		return err
	}
	switch {
	case r.opts.Config != "":
		req.ConfigJson = r.opts.Config
	case strings.Contains(req.ConfigJson, withheld):
		r.out.Notes = append(r.out.Notes, "sensitive settings of the configuration were not recorded; give a configuration if they matter")
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Patience)
	defer cancel()
	resp, err := r.client.Configure(ctx, &req)
	if err == nil && isRefusal(resp.Diagnostics) {
		err = errors.New(diagnosticText(resp.Diagnostics))
	}
	if err != nil {
		return fmt.Errorf("configure as recorded: %w", err)
	}
	return nil
}

// ReplayFile replays a recorded file and reports each difference as an error; t is a *testing.T.
func ReplayFile[S Test[S]](t S, target Target, path string, opts ReplayOptions) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	defer file.Close()
	out, err := Replay(t.Context(), target, file, opts)
	if err != nil {
		t.Fatalf("sdktest: replay %s: %v", path, err)
	}
	for _, note := range out.Notes {
		t.Logf("%s: %s", path, note)
	}
	for _, d := range out.Differences {
		t.Errorf("%s: %s", path, d)
	}
}
