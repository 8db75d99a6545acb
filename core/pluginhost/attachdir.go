package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/setpointd/setpoint/sdk"
)

const (
	attachPeriod  = 250 * time.Millisecond // between looks into the directory of attachments
	attachSuffix  = ".json"
	attachedReply = ".answer"
	maxAttachment = 4 << 10 // bytes of a file
)

// AttachReply is what a host says of a file that asked it to attach.
type AttachReply struct {
	Socket string `json:"socket"`
	Error  string `json:"error,omitempty"` // why nothing has changed; "" if the plugin is used now
}

// AttachPath returns the path of the file with which somebody asks a host to attach to a plugin: an sdk.Attachment as JSON, below the host's directory of
// attachments. The host uses the plugin for as long as the file is there, and says so in the file at ReplyPath, which goes once it uses its own again.
func AttachPath(dir, plugin string) string { return filepath.Join(dir, plugin+attachSuffix) }

// ReplyPath returns the path of the host's reply to AttachPath.
func ReplyPath(dir, plugin string) string { return filepath.Join(dir, plugin+attachedReply) }

// attachments follows a directory of files that ask for plugins to be attached. Owner: the goroutine of run.
type attachments struct {
	host *Host
	dir  string
	seen map[string]request // by plugin
}

// request is a file as it was seen.
type request struct {
	at    sdk.Attachment
	stamp time.Time
}

// follow does what the files ask for until ctx ends.
func (a *attachments) follow(ctx context.Context) {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		a.host.cfg.Logger.Warn("plugins cannot be attached to", "error", err)
		return
	}
	tick := time.NewTicker(attachPeriod)
	defer tick.Stop()
	for {
		a.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *attachments) look(ctx context.Context) {
	for _, name := range a.host.Names() {
		path := AttachPath(a.dir, name)
		info, err := os.Lstat(path)
		before, known := a.seen[name]
		switch {
		case errors.Is(err, fs.ErrNotExist) && known:
			delete(a.seen, name)
			if err := a.host.Detach(ctx, name, before.at.Socket); err != nil && ctx.Err() == nil {
				a.host.cfg.Logger.Warn("plugin is not detached", "plugin", name, "error", err)
			}
			_ = os.Remove(ReplyPath(a.dir, name)) // now whoever asked may end the plugin
		case err == nil && (!known || !info.ModTime().Equal(before.stamp)):
			a.take(ctx, name, info)
		}
	}
}

// take attaches as a file asks, and replies.
func (a *attachments) take(ctx context.Context, name string, info fs.FileInfo) {
	at, err := readAttachment(AttachPath(a.dir, name), info)
	a.seen[name] = request{at: at, stamp: info.ModTime()}
	if err == nil {
		err = a.host.Attach(ctx, name, at)
	}
	reply := AttachReply{Socket: at.Socket}
	if err != nil {
		reply.Error = err.Error()
		a.host.cfg.Logger.Warn("plugin is not attached", "plugin", name, "error", err)
	}
	text, err := json.Marshal(reply)
	if err == nil {
		err = os.WriteFile(ReplyPath(a.dir, name), text, 0o600)
	}
	if err != nil {
		a.host.cfg.Logger.Warn("reply to attach not written", "plugin", name, "error", err)
	}
}

// readAttachment reads a file that only this user or root can have written.
func readAttachment(path string, info fs.FileInfo) (sdk.Attachment, error) {
	var at sdk.Attachment
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || info.Size() > maxAttachment:
		return at, fmt.Errorf("%s is no regular file of at most %d bytes", path, maxAttachment)
	case !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0:
		return at, fmt.Errorf("%s belongs to somebody else than root and user %d, or others may write it", path, os.Geteuid())
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err == nil && (!filepath.IsAbs(at.Socket) || strings.ContainsRune(at.Socket, 0)) {
		err = fmt.Errorf("the socket %q is no absolute path", at.Socket)
	}
	if err != nil {
		return at, fmt.Errorf("read %s: %w", path, err)
	}
	return at, nil
}
