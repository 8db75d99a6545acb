package dashboard

import (
	"context"
	"html/template"
	"net/http"
	"strings"
)

// ask is one request of somebody who is logged in.
type ask struct {
	*http.Request
	session   *session
	dashboard *Dashboard
}

// page is what every page is made with.
type page struct {
	Title   string
	Tab     string // of the navigation
	Server  string
	User    string
	Role    string
	Form    string // that every form of the page carries
	Note    string // what came of the latest command
	Stalled int    // things that wait, for the navigation
	Body    template.HTML
	Live    bool
	After   uint64 // revision up to which the page shows what happened
}

// view is one page: a frame that stays, and regions that are made again when something changes.
type view struct {
	title  string
	tab    string
	frame  string // template, which gets a frame
	fixed  any    // for the frame
	status int    // 0: OK

	// regions returns what is shown, from the state as it is now. Nil: the page is shown as it is and not kept up to date.
	regions func(context.Context) ([]region, error)
	// tail is what is added to the page as it happens; nil: nothing is.
	tail tail
}

// tail is a region that begins with what happened lately and grows.
type tail interface {
	// recent returns the region as a page shows it at first, and up to which revision that is; 0 if it begins anew each time.
	recent(context.Context) (id string, text template.HTML, revision uint64, err error)
	// follow sends what comes after a revision, until the context ends or nothing more comes.
	follow(ctx context.Context, after uint64, to chan<- message)
}

// region is a part of a page that is sent again when it has changed.
type region struct {
	id       string // of the element; it is also the name under which the frame has it
	template string
	data     any
}

// frame is what a page's own template is made with.
type frame struct {
	Fixed    any
	Form     string
	Operator bool
	parts    map[string]template.HTML
}

// Region returns a region as it was when the page was made.
func (f frame) Region(id string) template.HTML { return f.parts[id] }

// made returns the regions of a view as they are now.
func (d *Dashboard) made(ctx context.Context, v *view) (ids []string, parts map[string]template.HTML, err error) {
	parts = map[string]template.HTML{}
	if v.regions == nil {
		return nil, parts, nil
	}
	all, err := v.regions(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range all {
		text, err := d.pages.render(r.template, r.data)
		if err != nil {
			return nil, nil, err
		}
		ids, parts[r.id] = append(ids, r.id), text
	}
	return ids, parts, nil
}

// showView answers with a whole page.
func (d *Dashboard) showView(w http.ResponseWriter, a *ask, v *view) {
	p := d.page(a)
	p.Title, p.Tab, p.Live = v.title, v.tab, v.regions != nil || v.tail != nil
	_, parts, err := d.made(a.Context(), v)
	if err == nil && v.tail != nil {
		var id string
		var text template.HTML
		id, text, p.After, err = v.tail.recent(a.Context())
		parts[id] = text
	}
	if m, ok := parts["map"]; ok && err == nil {
		parts["map"] = withBlocks(m, parts)
	}
	if err == nil {
		p.Body, err = d.pages.render(v.frame, frame{Fixed: v.fixed, Form: a.session.form, Operator: a.session.operator(), parts: parts})
	}
	if err != nil {
		d.showError(w, a, err)
		return
	}
	d.pages.write(w, max(v.status, http.StatusOK), "page.html", p, d.opts.Log)
}

// withBlocks puts the map's blocks where they belong; to a page that is there already they are sent one by one.
func withBlocks(m template.HTML, parts map[string]template.HTML) template.HTML {
	var pairs []string
	for id, block := range parts {
		if strings.HasPrefix(id, "nodes-") {
			mark := `id="` + id + `" data-region>`
			pairs = append(pairs, mark, mark+string(block))
		}
	}
	return template.HTML(strings.NewReplacer(pairs...).Replace(string(m)))
}

// page returns what every page of a session has.
func (d *Dashboard) page(a *ask) page {
	return page{
		Server: d.opts.Name, User: a.session.id.Name, Role: string(a.session.id.Role), Form: a.session.form, Note: d.sessions.told(a.session),
		Stalled: d.board.waiting(a.Context()),
	}
}
