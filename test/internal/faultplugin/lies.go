package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// lieAbout is the text in the settings of a class that the plugin lies about.
const lieAbout = "lie"

// tail is what ends a text that is looked for in an encoded message.
const tail = "garbled"

// lies are what can be false about a verdict, by name. Each makes a true message false.
var lies = map[string]func(v *pluginv1.ClassVerdict){
	"stranger": func(v *pluginv1.ClassVerdict) { v.Answer = allowed(bytes.Repeat([]byte{0xff}, 64)) }, // nodes that do not exist
	"both": func(v *pluginv1.ClassVerdict) { // allows what it refuses
		v.Answer = &pluginv1.ClassVerdict_Full{Full: &pluginv1.FullVerdict{
			Allowed: []byte{7}, Rejections: []*pluginv1.Rejection{{Code: "no"}}, Nodes: []uint32{0}, Reasons: []uint32{0},
		}}
	},
	"negative": func(v *pluginv1.ClassVerdict) { // less than there is
		v.Answer = &pluginv1.ClassVerdict_Full{Full: &pluginv1.FullVerdict{Allowed: []byte{7}, Ranks: []int32{-1000}}}
	},
	"vast":    func(v *pluginv1.ClassVerdict) { v.Answer = stalled(strings.Repeat("x", 10<<20)) },
	"garbled": func(v *pluginv1.ClassVerdict) { v.Answer = stalled(tail) }, // see garble
	"earlier": func(*pluginv1.ClassVerdict) {},                             // see falsified.repeat
}

func allowed(bitmap []byte) *pluginv1.ClassVerdict_Full {
	return &pluginv1.ClassVerdict_Full{Full: &pluginv1.FullVerdict{Allowed: bitmap}}
}

func stalled(text string) *pluginv1.ClassVerdict_Stall {
	return &pluginv1.ClassVerdict_Stall{Stall: &pluginv1.Stall{Code: "no", Message: text}}
}

// kinds are what the plugin can be told to lie about or to lack.
func kinds() string {
	return strings.Join(slices.Sorted(maps.Keys(lies)), ", ") + "; " + strings.Join([]string{lackSession, lackInterface, lackFilter}, ", ")
}

// What a plugin can lack of what it should have.
const (
	lackSession   = "session"   // the call is not served
	lackInterface = "interface" // it is of a kind that no host knows
	lackFilter    = "filter"    // it says that it is a filter, and is none
)

// serveFalsely serves a plugin that lies in one way, or lacks something. It does what sdk.Serve does, without its care.
func serveFalsely(p sdk.Plugin, lie, lack string) error {
	if lie != "" && lies[lie] == nil {
		return fmt.Errorf("no lie %q: there are %s", lie, kinds())
	}
	if lack == lackFilter {
		p.Filter, p.Drainer = nil, idle{}
	}
	log := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, JSONFormat: true})
	server, err := sdk.NewServer(p, log, nil)
	if err != nil {
		return err
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: sdk.Handshake(), Plugins: plugin.PluginSet{sdk.PluginKey: falsely{server: &liar{Server: server, lie: lie, lack: lack}}},
		GRPCServer: plugin.DefaultGRPCServer, Logger: log,
	})
	return nil
}

// idle is a drainer that has nothing to say.
type idle struct{}

// Drain says nothing.
func (idle) Drain(context.Context, sdk.DrainRequest) (sdk.DrainResponse, error) {
	return sdk.DrainResponse{}, nil
}

type falsely struct {
	plugin.NetRPCUnsupportedPlugin
	server pluginv1.PluginServer
}

// GRPCServer registers the plugin.
func (f falsely) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	pluginv1.RegisterPluginServer(g, f.server)
	return nil
}

// GRPCClient is for hosts only.
func (falsely) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client")
}

// liar is the SDK's server with false words.
type liar struct {
	*sdk.Server
	lie, lack string
}

// Describe says what the plugin is, or is not.
func (l *liar) Describe(ctx context.Context, req *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	resp, err := l.Server.Describe(ctx, req)
	switch {
	case err != nil:
	case l.lack == lackInterface:
		resp.Interfaces = []string{"oracle"}
	case l.lack == lackFilter:
		resp.Interfaces = []string{sdk.InterfaceFilter}
	}
	return resp, err
}

// Session holds a conversation in which some answers are false.
func (l *liar) Session(st pluginv1.Plugin_SessionServer) error {
	if l.lack == lackSession {
		return status.Error(codes.Unimplemented, "unknown method Session for service setpoint.plugin.v1.Plugin")
	}
	return l.Server.Session(&falsified{Plugin_SessionServer: st, lie: l.lie, about: make(map[uint32]bool)})
}

// falsified is a conversation in which what is said about some classes is false.
type falsified struct {
	pluginv1.Plugin_SessionServer
	lie string

	mu    sync.Mutex // guards what follows
	about map[uint32]bool
	first *pluginv1.FromPlugin // the answer that is given again
	again bool                 // the time to do so has come
}

// Recv notes which classes are to be lied about.
func (f *falsified) Recv() (*pluginv1.FromCore, error) {
	m, err := f.Plugin_SessionServer.Recv()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range m.GetClasses().GetAdd() {
		if strings.Contains(c.GetRequest().GetSettingsJson(), lieAbout) {
			f.about[c.GetId()] = true
		}
	}
	return m, err
}

// Send makes answers about those classes false.
func (f *falsified) Send(m *pluginv1.FromPlugin) error {
	for _, said := range f.falsify(m) {
		if err := f.Plugin_SessionServer.Send(said); err != nil {
			return err
		}
	}
	return nil
}

// falsify returns what is said instead of a message.
func (f *falsified) falsify(m *pluginv1.FromPlugin) []*pluginv1.FromPlugin {
	f.mu.Lock()
	defer f.mu.Unlock()
	lied := false
	for _, v := range m.GetVerdicts().GetClasses() {
		if f.about[v.GetClass()] && f.lie != "" {
			lies[f.lie](v)
			lied = true
		}
	}
	switch {
	case lied && f.lie == "garbled":
		return []*pluginv1.FromPlugin{garble(m)}
	case f.lie == "earlier":
		return f.repeat(m, lied)
	}
	return []*pluginv1.FromPlugin{m}
}

// repeat gives the first answer about a class again and again: once it has said that all is answered at a later revision, and instead of every answer then.
// What it would say in between it keeps back.
func (f *falsified) repeat(m *pluginv1.FromPlugin, about bool) []*pluginv1.FromPlugin {
	newest := func(m *pluginv1.FromPlugin) uint64 {
		var out uint64
		for _, v := range m.GetVerdicts().GetClasses() {
			out = max(out, v.ClassRevision)
		}
		return out
	}
	switch {
	case about && newest(m) > newest(f.first):
		f.first, f.again = proto.CloneOf(m), false
	case about && f.again:
		return []*pluginv1.FromPlugin{f.first}
	case about:
		return nil
	case f.first != nil && m.GetApplied().GetRevision() > f.first.GetVerdicts().GetRevision():
		f.again = true
		return []*pluginv1.FromPlugin{m, f.first}
	}
	return []*pluginv1.FromPlugin{m}
}

// garble makes the text that ends in tail one that is no UTF-8. What the library would refuse to encode is sent as a field that it does not know.
func garble(m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	out := &pluginv1.FromPlugin{}
	out.ProtoReflect().SetUnknown(bytes.ReplaceAll(raw, []byte(tail), []byte("garble\xff")))
	return out
}
