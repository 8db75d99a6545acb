package main

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// noticeAfter is for how long a job is stalled before somebody who waits for it at a terminal is told why: what passes by itself is over by then.
const noticeAfter = 2 * time.Second

// stallNotice tells somebody who waits at a terminal for what, once, without ending the wait.
type stallNotice struct {
	app    *app
	server *server
	since  time.Time // the job was seen stalled; zero: it is not
	told   bool
}

// look tells it if it is time. Elsewhere than on a terminal what a job waits for is told at the end of the wait.
func (n *stallNotice) look(ctx context.Context, progress *console.Progress, j *apiv1.Job, now time.Time) {
	switch {
	case n.told || n.app.structured() || !n.app.terminal(n.app.out):
		return
	case j.GetState() != "stalled":
		n.since = time.Time{}
		return
	case n.since.IsZero():
		n.since = now
		return
	case now.Sub(n.since) < noticeAfter:
		return
	}
	n.told = true
	var text bytes.Buffer
	style := n.app.style(n.app.out)
	writeStalls(&text, style, now, stallsOf(ctx, n.server, j))
	text.WriteString("\n" + style.Faint("It goes on by itself once the cause is gone. Ctrl-C ends the waiting, and nothing else."))
	progress.Keep(strings.TrimLeft(text.String(), "\n"))
}
