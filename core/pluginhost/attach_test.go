package pluginhost

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/sdk"
)

// waiting is a plugin in this process that waits for a host to attach. stop ends it, as its author would.
func waiting(t *testing.T) (at sdk.Attachment, stop func()) {
	t.Helper()
	server, err := sdk.NewServer(poolPlugin("pool"), hclog.NewNullLogger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := sdk.ListenDebug("/tmp")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, server) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return d.Attachment(), stop
}

func TestAttachAndDetach(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	own := r.up(t, "pool", 0)
	pid := r.Status()[0].PID
	at, _ := waiting(t)
	if err := r.Attach(t.Context(), "pool", at); err != nil {
		t.Fatal(err)
	}
	up := r.up(t, "pool", own.Session)
	if s := r.Status()[0]; s.Attached != at.Socket || s.PID != os.Getpid() || s.State != StateRunning || s.Digest != "" {
		t.Errorf("attached: %+v", s)
	}
	u := first(up)
	u.AddClasses = append(u.AddClasses, class(1, `{"pool":"a"}`))
	r.Update(u)
	if v := verdictOn(t, r, up.Session, 1); v.Full == nil || v.Full.Allowed[0] != 1 {
		t.Errorf("the attached plugin says %+v", v)
	}
	if err := r.Detach(t.Context(), "pool", at.Socket); err != nil {
		t.Fatal(err)
	}
	r.up(t, "pool", up.Session)
	if s := r.Status()[0]; s.Attached != "" || s.PID == os.Getpid() || s.PID == pid || s.PID == 0 {
		t.Errorf("detached: %+v", s)
	}
	again := r.up(t, "pool", up.Session)
	if err := r.Attach(t.Context(), "pool", at); err != nil { // it still waits: nobody has ended it
		t.Fatal(err)
	}
	r.up(t, "pool", again.Session)
}

func TestAttachedPluginThatEndsIsReplaced(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	own := r.up(t, "pool", 0)
	at, stop := waiting(t)
	if err := r.Attach(t.Context(), "pool", at); err != nil {
		t.Fatal(err)
	}
	up := r.up(t, "pool", own.Session)
	stop()
	r.up(t, "pool", up.Session)
	if s := r.Status()[0]; s.Attached != "" || s.PID == os.Getpid() || s.State != StateRunning || s.Restarts != 0 {
		t.Errorf("after the attached process is gone: %+v", s)
	}
}

func TestAttachThatFailsChangesNothing(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	r.up(t, "pool", 0)
	before := r.Status()[0]
	for name, at := range map[string]sdk.Attachment{
		"nobody there":   {Socket: "/tmp/no/such/socket", Protocol: sdk.ProtocolVersion},
		"other protocol": {Socket: "/tmp/no/such/socket", Protocol: 99},
	} {
		if err := r.Attach(t.Context(), "pool", at); err == nil || !strings.Contains(err.Error(), "nothing has changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Attach(t.Context(), "none", sdk.Attachment{}); err == nil {
		t.Error("a plugin that is not configured is attached to")
	}
	if s := r.Status()[0]; s.PID != before.PID || s.State != StateRunning {
		t.Errorf("before %+v, after %+v", before, s)
	}
}

func TestAttachByFile(t *testing.T) {
	dir := t.TempDir()
	r := run(t, Config{Plugins: []Plugin{played("pool")}, AttachDir: dir})
	own := r.up(t, "pool", 0)
	reply := func() AttachReply {
		var out AttachReply
		eventually(t, "a reply", func() bool {
			text, err := os.ReadFile(ReplyPath(dir, "pool"))
			return err == nil && json.Unmarshal(text, &out) == nil
		})
		return out
	}
	path := AttachPath(dir, "pool")
	if err := os.WriteFile(path, []byte(`{"socket":"/tmp/x","protocol":1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := reply(); !strings.Contains(got.Error, "others may write it") {
		t.Errorf("a file that others may write: %+v", got)
	}
	_ = os.Remove(path)
	eventually(t, "the reply goes", func() bool { _, err := os.Stat(ReplyPath(dir, "pool")); return err != nil })

	at, _ := waiting(t)
	if err := WriteAttachment(path, at); err != nil {
		t.Fatal(err)
	}
	up := r.up(t, "pool", own.Session)
	if got := reply(); got.Error != "" || got.Socket != at.Socket {
		t.Errorf("reply: %+v", got)
	}
	_ = os.Remove(path)
	r.up(t, "pool", up.Session)
	if s := r.Status()[0]; s.Attached != "" || s.PID == os.Getpid() {
		t.Errorf("after the file is gone: %+v", s)
	}
}
