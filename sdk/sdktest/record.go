package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// A recording is text: one JSON object in each line, in the order in which things happened.
//
//	{"at_ns":0,"kind":"describe","message":{…}}                      what the plugin said it is
//	{"at_ns":52,"kind":"configure","message":{"config_json":"…"}}    a configuration that it took up
//	{"at_ns":90,"kind":"core","session":1,"message":{…}}             a message of a session from the core
//	{"at_ns":99,"kind":"plugin","session":1,"message":{…}}           and one from the plugin
//	{"at_ns":120,"kind":"end","session":1}                           the end of the session
type recorded struct {
	At      time.Duration   `json:"at_ns"` // since the recording began
	Kind    recordedKind    `json:"kind"`
	Session int             `json:"session,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
}

type recordedKind string

const (
	kindDescribe  recordedKind = "describe"
	kindConfigure recordedKind = "configure"
	kindCore      recordedKind = "core"
	kindPlugin    recordedKind = "plugin"
	kindEnd       recordedKind = "end"
)

// withheld is written in the place of sensitive settings.
const withheld = "(sensitive)"

// Recorder is a plugin in front of a plugin: it passes everything on, and writes down what is said in sessions. Settings that the plugin's schema calls
// sensitive are not written.
type Recorder struct {
	pluginv1.UnimplementedPluginServer

	plugin pluginv1.PluginClient
	begun  time.Time

	mu       sync.Mutex // guards what follows
	out      *json.Encoder
	err      error // the first of writing
	about    *pluginv1.DescribeResponse
	sessions int
}

// NewRecorder returns a recorder of the plugin that client reaches. It writes to w, one line at a time.
func NewRecorder(w io.Writer, client pluginv1.PluginClient) *Recorder {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return &Recorder{plugin: client, begun: time.Now(), out: out}
}

// Err returns why the recording is not whole, or nil. What could not be written was passed on nevertheless.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) write(kind recordedKind, session int, m proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := recorded{At: time.Since(r.begun), Kind: kind, Session: session}
	var err error
	if m != nil {
		line.Message, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	}
	if err == nil {
		err = r.out.Encode(line)
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("record: %w", err)
	}
}

// Describe passes the question on.
func (r *Recorder) Describe(ctx context.Context, req *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	resp, err := r.plugin.Describe(ctx, req)
	if err == nil {
		r.mu.Lock()
		known := proto.Equal(r.about, resp)
		r.about = resp
		r.mu.Unlock()
		if !known {
			r.write(kindDescribe, 0, resp)
		}
	}
	return resp, err
}

// Validate passes the question on.
func (r *Recorder) Validate(ctx context.Context, req *pluginv1.ValidateRequest) (*pluginv1.ValidateResponse, error) {
	return r.plugin.Validate(ctx, req)
}

// Configure passes the configuration on, and records it if it is taken up.
func (r *Recorder) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	resp, err := r.plugin.Configure(ctx, req)
	if err == nil && !isRefusal(resp.Diagnostics) {
		r.write(kindConfigure, 0, &pluginv1.ConfigureRequest{ConfigJson: withhold(r.schemas().GetConfig(), req.ConfigJson)})
	}
	return resp, err
}

// Stop passes the wish on.
func (r *Recorder) Stop(ctx context.Context, req *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	return r.plugin.Stop(ctx, req)
}

// Session passes a conversation on and records it.
func (r *Recorder) Session(core pluginv1.Plugin_SessionServer) error {
	ctx, cancel := context.WithCancel(core.Context())
	defer cancel()
	plugin, err := r.plugin.Session(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.sessions++
	number := r.sessions
	r.mu.Unlock()
	var sender sync.WaitGroup
	sender.Go(func() {
		defer cancel()
		for {
			m, err := core.Recv()
			if err != nil {
				return
			}
			r.write(kindCore, number, r.withheldIn(m))
			if plugin.Send(m) != nil {
				return // why is for the other direction to find out
			}
		}
	})
	err = r.answers(core, plugin, number)
	cancel()
	r.write(kindEnd, number, nil)
	return err
}

// answers passes on what the plugin says until it ends.
func (r *Recorder) answers(core pluginv1.Plugin_SessionServer, plugin pluginv1.Plugin_SessionClient, number int) error {
	for {
		m, err := plugin.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.write(kindPlugin, number, m)
		if err := core.Send(m); err != nil {
			return err
		}
	}
}

func (r *Recorder) schemas() *pluginv1.DescribeResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// withheldIn returns a message of the core's without the sensitive settings of jobs.
func (r *Recorder) withheldIn(m *pluginv1.FromCore) *pluginv1.FromCore {
	schema := r.schemas().GetJob()
	if !hasSensitive(schema) {
		return m
	}
	m = proto.CloneOf(m)
	for _, c := range append(m.GetClasses().GetAdd(), m.GetQuestion().GetTrial().GetClasses()...) {
		c.Request.SettingsJson = withhold(schema, c.GetRequest().GetSettingsJson())
	}
	for _, j := range m.GetJobs().GetAdd() {
		j.SettingsJson = withhold(schema, j.SettingsJson)
	}
	for _, t := range m.GetQuestion().GetDrain().GetTasks() {
		t.SettingsJson = withhold(schema, t.SettingsJson)
	}
	return m
}

func hasSensitive(s *pluginv1.Schema) bool {
	for _, a := range s.GetAttributes() {
		if a.Sensitive {
			return true
		}
	}
	for _, b := range s.GetBlocks() {
		if hasSensitive(b.Block) {
			return true
		}
	}
	return false
}

// withhold returns settings without what their schema calls sensitive. Settings that cannot be read are withheld as a whole.
func withhold(schema *pluginv1.Schema, text string) string {
	if text == "" || !hasSensitive(schema) {
		return text
	}
	var v map[string]any
	if json.Unmarshal([]byte(text), &v) != nil {
		return withheld
	}
	withholdBlock(schema, v)
	out, err := json.Marshal(v)
	if err != nil {
		return withheld
	}
	return string(out)
}

func withholdBlock(schema *pluginv1.Schema, v map[string]any) {
	for _, a := range schema.GetAttributes() {
		if _, ok := v[a.Name]; ok && a.Sensitive {
			v[a.Name] = withheld
		}
	}
	for _, b := range schema.GetBlocks() {
		switch x := v[b.Name].(type) {
		case map[string]any:
			withholdBlock(b.Block, x)
		case []any:
			for _, y := range x {
				if block, ok := y.(map[string]any); ok {
					withholdBlock(b.Block, block)
				}
			}
		}
	}
}
