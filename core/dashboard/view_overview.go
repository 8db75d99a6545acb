package dashboard

import (
	"context"
	"net/http"
)

// maxJobsInOverview is how many jobs the first page shows: those that need a look, then others.
const maxJobsInOverview = 12

// views are the pages, by their addresses.
func (d *Dashboard) views() map[string]func(*ask) (*view, error) {
	return map[string]func(*ask) (*view, error){
		"/{$}":                           d.overviewView,
		"/stalls":                        d.stallsView,
		"/jobs":                          d.jobsView,
		"/jobs/{name}":                   d.jobView,
		"/nodes":                         d.nodesView,
		"/nodes/{name}":                  d.nodeView,
		"/tasks/{job}/{slot}":            d.taskView,
		"/tasks/{job}/{slot}/{rev}":      d.taskView,
		"/tasks/{job}/{slot}/{rev}/logs": d.outputView,
		"/plugins":                       d.pluginsView,
		"/plugins/{name}":                d.pluginView,
		"/events":                        d.eventsView,
		"/":                              unknownView,
	}
}

func unknownView(a *ask) (*view, error) { return nil, notFound("page", a.URL.Path) }

// overviewView is the first page: what waits, how much there is, what jobs do, and all nodes.
func (d *Dashboard) overviewView(*ask) (*view, error) {
	return &view{title: "Overview", tab: "overview", frame: "overview.html", status: http.StatusOK, regions: func(ctx context.Context) ([]region, error) {
		causes, err := d.board.stalled(ctx)
		if err != nil {
			return nil, err
		}
		sums, err := d.board.sums()
		if err != nil {
			return nil, err
		}
		jobs, err := d.board.jobRows()
		if err != nil {
			return nil, err
		}
		nodes, err := d.board.nodeBoard(ctx)
		if err != nil {
			return nil, err
		}
		out := []region{
			{"stalls", "stalls.html", stallList{Causes: causes, Members: 3}},
			{"sums", "sums.html", sums},
			{"jobs", "jobtable.html", jobList{Rows: jobs[:min(len(jobs), maxJobsInOverview)], More: max(0, len(jobs)-maxJobsInOverview)}},
		}
		return append(out, mapRegions(nodes)...), nil
	}}, nil
}

// stallList is what waits, by cause.
type stallList struct {
	Causes  []*cause
	Members int // shown of each at once
}

// Count is how many things wait, those aside that wait as they should.
func (l stallList) Count() int {
	n := 0
	for _, c := range l.Causes {
		if !c.Quiet {
			n += c.Count
		}
	}
	return n
}

// Kinds is how many causes there are for that.
func (l stallList) Kinds() int {
	n := 0
	for _, c := range l.Causes {
		n += 1 - oneIf(c.Quiet)
	}
	return n
}

// stallsView is all that waits.
func (d *Dashboard) stallsView(a *ask) (*view, error) {
	code := a.URL.Query().Get("code")
	return &view{title: "Stalls", tab: "stalls", frame: "stallspage.html", fixed: code, regions: func(ctx context.Context) ([]region, error) {
		causes, err := d.board.stalled(ctx)
		if err != nil {
			return nil, err
		}
		list := stallList{Members: maxMembers}
		for _, c := range causes {
			if code == "" || c.Code == code {
				list.Causes = append(list.Causes, c)
			}
		}
		return []region{{"stalls", "stalls.html", list}}, nil
	}}, nil
}

// mapRegions are the regions of the map of nodes: one for each block, and one that says which blocks there are.
func mapRegions(m *nodeMap) []region {
	out := []region{{"map", "map.html", m}}
	for _, b := range m.Blocks {
		out = append(out, region{b.ID, "block.html", b})
	}
	return out
}
