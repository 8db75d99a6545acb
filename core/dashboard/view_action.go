package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// Limits of a preview.
const (
	planTimeout  = 20 * time.Second
	maxPlanRows  = 100
	doingTimeout = 30 * time.Second
)

// preview is the page on which an action is confirmed, with what would follow from it.
type preview struct {
	*action
	Subject string
	Back    string
	Value   string // of its field
	Asked   bool   // it can be confirmed
	Plan    *apiv1.PlanResponse
	NoPlan  string // why there is none
	Slots   []*apiv1.PlanSlot
	Stalls  []*apiv1.PlanStall // that would be there in the end, and are not now
	More    int
}

// onOf returns whether a path is about nodes or jobs.
func onOf(r *http.Request) string {
	on, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return on
}

func (d *Dashboard) previewView(a *ask) (*view, error) {
	// The server refuses the call itself; who may not make it need not see what it would do.
	if err := a.session.id.Require(pki.RoleOperator); err != nil {
		return nil, connect.NewError(connect.CodePermissionDenied, err)
	}
	on, subject := onOf(a.Request), a.PathValue("name")
	what, err := d.actionNamed(on, subject, a.PathValue("action"))
	if err != nil {
		return nil, err
	}
	p := preview{action: what, Subject: subject, Back: "/" + on + "/" + subject}
	form := a.URL.Query()
	if f := what.Field; f != nil {
		p.Value = form.Get(f.Name)
		if !form.Has(f.Name) {
			p.Value = f.Value
			form.Set(f.Name, f.Value)
			if f.Required {
				return p.view(), nil // what is there now is no change to be previewed
			}
		}
	}
	if err := d.foresee(a, &p, form); err != nil {
		return nil, err
	}
	return p.view(), nil
}

func (p *preview) view() *view {
	tab := "jobs"
	if strings.HasPrefix(p.Back, "/nodes/") {
		tab = "nodes"
	}
	return &view{title: p.Label + " " + p.Subject, tab: tab, frame: "action.html", fixed: p}
}

// foresee has the server try an action.
func (d *Dashboard) foresee(a *ask, p *preview, form url.Values) error {
	o, err := p.order(p.Subject, form)
	if err != nil {
		return err
	}
	p.Asked = true
	ctx, cancel := context.WithTimeout(a.Context(), planTimeout)
	defer cancel()
	res, err := a.session.api.Plan(ctx, connect.NewRequest(&apiv1.PlanRequest{Commands: []*apiv1.PlanCommand{o.try}}))
	switch {
	case errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		p.NoPlan = fmt.Sprintf("The server has not found out within %s what would follow.", planTimeout)
		return nil
	case err != nil:
		return err
	}
	p.Plan = res.Msg
	p.Slots = res.Msg.GetSlots()
	if over := len(p.Slots) - maxPlanRows; over > 0 {
		p.Slots, p.More = p.Slots[:maxPlanRows], over
	}
	for _, s := range res.Msg.GetStalls() {
		if s.GetEnds() == nil && !s.GetBefore() && !s.GetHeld() && len(p.Stalls) < maxPlanRows {
			p.Stalls = append(p.Stalls, s)
		}
	}
	return nil
}

// carryOut does what a form confirms, as who is logged in.
func (d *Dashboard) carryOut(w http.ResponseWriter, r *http.Request, s *session) {
	a := &ask{Request: r, session: s, dashboard: d}
	on, subject := onOf(r), r.PathValue("name")
	what, err := d.actionNamed(on, subject, r.PathValue("action"))
	var o order
	if err == nil {
		o, err = what.order(subject, r.PostForm)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), doingTimeout)
		defer cancel()
		err = o.do(ctx, s.api)
	}
	if err != nil {
		d.showError(w, a, err)
		return
	}
	d.sessions.tell(s, fmt.Sprintf("%s: asked for.", what.Label))
	http.Redirect(w, r, "/"+on+"/"+url.PathEscape(subject), http.StatusSeeOther)
}
