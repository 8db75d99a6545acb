package sdk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// core is a stream for tests: what the core says, and what it has heard. Taking a message waits for the core to be willing.
type core struct {
	say   chan *pluginv1.FromCore // closed: the core hangs up
	heard chan *pluginv1.FromPlugin
}

func (c core) Send(m *pluginv1.FromPlugin) error {
	c.heard <- m
	return nil
}

func (c core) Recv() (*pluginv1.FromCore, error) {
	m, ok := <-c.say
	if !ok {
		return nil, io.EOF
	}
	return m, nil
}

// oddFilter refuses nodes whose label x is odd.
type oddFilter struct{}

func (oddFilter) Compile(context.Context, CompileRequest) (Matcher, error) { return oddMatcher{}, nil }

type oddMatcher struct{}

func (oddMatcher) Match(n *cluster.Node) error {
	if x := n.Spec.Labels["x"]; strings.HasSuffix(x, "1") {
		return &Stall{Code: "odd"}
	}
	return nil
}

func oddPlugin() *Plugin {
	return &Plugin{Name: "odd", Version: "1", Filter: oddFilter{}, Watches: []Watch{WatchLabels}}
}

func hello() *pluginv1.FromCore {
	return &pluginv1.FromCore{Message: &pluginv1.FromCore_Hello{Hello: &pluginv1.Hello{}}}
}

func nodes(m *pluginv1.Nodes) *pluginv1.FromCore {
	return &pluginv1.FromCore{Message: &pluginv1.FromCore_Nodes{Nodes: m}}
}

func oneClass() *pluginv1.FromCore {
	return &pluginv1.FromCore{Message: &pluginv1.FromCore_Classes{Classes: &pluginv1.Classes{Add: []*pluginv1.Class{{Id: 7, Revision: 1}}}}}
}

func TestSlowReaderGetsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := core{say: make(chan *pluginv1.FromCore), heard: make(chan *pluginv1.FromPlugin)}
		ended := make(chan error)
		go func() { ended <- serveSession(t.Context(), oddPlugin(), hclog.NewNullLogger(), c, nil) }()
		c.say <- hello()
		c.say <- nodes(&pluginv1.Nodes{Revision: 1, Last: true, Strings: []string{"", "n1", "x", "0", "1"}, Upsert: []*pluginv1.Node{xNode(3)}})
		c.say <- oneClass()
		const last = 1000
		for r := uint64(2); r <= last; r++ {
			c.say <- nodes(&pluginv1.Nodes{Revision: r, Last: true, Upsert: []*pluginv1.Node{xNode(3 + uint32(r%2))}})
			synctest.Wait()
		}
		var heard []*pluginv1.FromPlugin
		for applied := uint64(0); applied != last; {
			m := <-c.heard
			heard = append(heard, m)
			applied = m.GetApplied().GetRevision()
		}
		if len(heard) > 6 {
			t.Errorf("heard %d messages, want the latest of each kind and what was under way", len(heard))
		}
		v := heard[len(heard)-2].GetVerdicts()
		if v.GetRevision() != last || v.Classes[0].GetFull() == nil || v.Classes[0].GetFull().Allowed[0] != 1 {
			t.Errorf("verdicts before the last Applied: %v, want a full answer at revision %d that allows the node", v, last)
		}
		close(c.say)
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("session ended with %v, want the core's end of file", err)
		}
	})
}

func xNode(value uint32) *pluginv1.Node {
	return &pluginv1.Node{Id: 1, Name: 1, LabelKeys: []uint32{2}, LabelValues: []uint32{value}}
}

func TestProtocolViolations(t *testing.T) {
	for name, test := range map[string]struct {
		said []*pluginv1.FromCore
		want string
	}{
		"no hello":    {[]*pluginv1.FromCore{oneClass()}, "the first message is not hello"},
		"two hellos":  {[]*pluginv1.FromCore{hello(), hello()}, "hello came twice"},
		"string zero": {[]*pluginv1.FromCore{hello(), nodes(&pluginv1.Nodes{Revision: 1, Strings: []string{"a"}})}, `string number 0 is "a", not empty`},
		"unknown string": {
			[]*pluginv1.FromCore{hello(), nodes(&pluginv1.Nodes{Revision: 1, Strings: []string{""}, Upsert: []*pluginv1.Node{{Id: 9}}})},
			"node 0: string number 9 is not in the table of 1",
		},
		"unknown node": {[]*pluginv1.FromCore{hello(), nodes(&pluginv1.Nodes{Revision: 1, Remove: []uint32{3}})}, "removed node 3 is unknown"},
		"huge index": {
			[]*pluginv1.FromCore{hello(), nodes(&pluginv1.Nodes{Revision: 1, Strings: []string{""}, Upsert: []*pluginv1.Node{{Index: 1 << 30}}})},
			"node index 1073741824 is beyond 4194304",
		},
		"backwards": {
			[]*pluginv1.FromCore{hello(), nodes(&pluginv1.Nodes{Revision: 5, Last: true}), nodes(&pluginv1.Nodes{Revision: 4, Last: true})},
			"nodes at revision 4 follow revision 5",
		},
		"labels": {
			[]*pluginv1.FromCore{hello(), nodes(&pluginv1.Nodes{Revision: 1, Strings: []string{""}, Upsert: []*pluginv1.Node{{LabelKeys: []uint32{0}}}})},
			"node 0: keys and values differ in number",
		},
		"job": {
			[]*pluginv1.FromCore{hello(), {Message: &pluginv1.FromCore_Jobs{Jobs: &pluginv1.Jobs{Add: []*pluginv1.Job{{Name: "j", Type: "t"}}}}}},
			`job j is of type "t", which the plugin does not serve`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := core{say: make(chan *pluginv1.FromCore, 9), heard: make(chan *pluginv1.FromPlugin, 9)}
			for _, m := range test.said {
				c.say <- m
			}
			err := serveSession(t.Context(), oddPlugin(), hclog.NewNullLogger(), c, nil)
			if !errors.Is(err, ErrProtocol) || err.Error() != "protocol violated: "+test.want {
				t.Errorf("ended with %v, want %s", err, test.want)
			}
			close(c.say)
		})
	}
}

func TestUnknownMessagesAndQuestions(t *testing.T) {
	c := core{say: make(chan *pluginv1.FromCore, 9), heard: make(chan *pluginv1.FromPlugin, 9)}
	ask := func(q *pluginv1.Question) {
		c.say <- &pluginv1.FromCore{Message: &pluginv1.FromCore_Question{Question: q}}
	}
	c.say <- hello()
	c.say <- &pluginv1.FromCore{}
	ask(&pluginv1.Question{Id: 1})
	ask(&pluginv1.Question{Id: 2, Ask: &pluginv1.Question_Drain{Drain: &pluginv1.DrainQuestion{}}})
	ask(&pluginv1.Question{Id: 3, Ask: &pluginv1.Question_Trial{Trial: &pluginv1.TrialQuestion{}}})
	ended := make(chan error)
	go func() { ended <- serveSession(t.Context(), oddPlugin(), hclog.NewNullLogger(), c, nil) }()
	var got []string
	for len(got) < 3 {
		if f := (<-c.heard).GetAnswer().GetFailure(); f != nil {
			got = append(got, f.Message)
		}
	}
	want := []string{"the question is of an unknown kind", "the plugin is no drainer", "the nodes are not known yet"}
	if !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	close(c.say)
	<-ended
}

// FuzzMirror checks that no message breaks the mirror: it is taken or refused, and what is taken can be read.
func FuzzMirror(f *testing.F) {
	seed, err := proto.Marshal(&pluginv1.Nodes{
		Revision: 1, Last: true, Strings: []string{"", "n1", "x", "0"}, Upsert: []*pluginv1.Node{xNode(3), {Index: 2, Id: 2}}, Remove: []uint32{0},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, seed)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var m mirror
		for _, raw := range [][]byte{first, second} {
			var msg pluginv1.Nodes
			if proto.Unmarshal(raw, &msg) != nil || slices.ContainsFunc(msg.Upsert, func(n *pluginv1.Node) bool { return n.Index > 1000 }) {
				return
			}
			_, complete, err := m.apply(&msg)
			if err != nil {
				return
			}
			if !complete {
				continue
			}
			for _, n := range m.current.byID() {
				if _, ok := m.current.index(n.ID); !ok {
					t.Errorf("node %q is not found by its id", n.ID)
				}
			}
		}
	})
}

// waitDrainer waits for its context and tells that it ended.
type waitDrainer struct{ ended chan struct{} }

func (d waitDrainer) Drain(ctx context.Context, _ DrainRequest) (DrainResponse, error) {
	<-ctx.Done()
	d.ended <- struct{}{}
	return DrainResponse{}, ctx.Err()
}

func TestCancelledQuestionGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := core{say: make(chan *pluginv1.FromCore), heard: make(chan *pluginv1.FromPlugin, 9)}
		d := waitDrainer{ended: make(chan struct{})}
		ended := make(chan error)
		go func() {
			ended <- serveSession(t.Context(), &Plugin{Name: "w", Drainer: d}, hclog.NewNullLogger(), c, nil)
		}()
		c.say <- hello()
		c.say <- nodes(&pluginv1.Nodes{Revision: 1, Last: true, Strings: []string{"", "n1"}, Upsert: []*pluginv1.Node{{Id: 1}}})
		c.say <- &pluginv1.FromCore{Message: &pluginv1.FromCore_Question{Question: &pluginv1.Question{
			Id: 1, Ask: &pluginv1.Question_Drain{Drain: &pluginv1.DrainQuestion{}},
		}}}
		synctest.Wait()
		c.say <- &pluginv1.FromCore{Message: &pluginv1.FromCore_Cancel{Cancel: &pluginv1.Cancel{Question: 1}}}
		<-d.ended
		synctest.Wait()
		close(c.say)
		<-ended
		close(c.heard)
		for m := range c.heard {
			if m.GetAnswer() != nil {
				t.Errorf("answered %v, want no answer", m)
			}
		}
	})
}

// lastingFilter compiles until it is told to stop.
type lastingFilter struct{}

func (lastingFilter) Compile(ctx context.Context, _ CompileRequest) (Matcher, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestWhatTheEndOfASessionCutsShortIsNoFailure(t *testing.T) {
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	s := newSession(ctx, &Plugin{Name: "l", Filter: lastingFilter{}}, hclog.New(&hclog.LoggerOptions{Output: &said}), hello().GetHello())
	if err := s.handle(nodes(&pluginv1.Nodes{Revision: 1, Last: true})); err != nil {
		t.Fatal(err)
	}
	if err := s.handle(oneClass()); err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, call := range s.calls {
		call.run()
	}
	s.inbox.deal()
	if len(s.calls) != 1 || said.Len() > 0 || s.classes[7].failed != nil {
		t.Errorf("after %d calls the log says %q, and the class failed with %v", len(s.calls), said.String(), s.classes[7].failed)
	}
	s.close()
}
