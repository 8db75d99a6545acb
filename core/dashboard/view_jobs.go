package dashboard

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// pageRows is how many rows a page of a list has.
const pageRows = 50

// jobList is some of the jobs.
type jobList struct {
	Rows []*jobRow
	More int // not shown
	Pages
	Query, State string
	States       []count
}

// Pages leads to the other pages of a list.
type Pages struct {
	From, To, Of int
	Prev, Next   string // addresses; "": there is none
}

// pageOf returns the part of a list that a request asks for.
func pageOf[T any](a *ask, all []T) ([]T, Pages) {
	n, err := strconv.Atoi(a.URL.Query().Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	last := max(1, (len(all)+pageRows-1)/pageRows)
	n = min(n, last)
	from, to := (n-1)*pageRows, min(n*pageRows, len(all))
	link := func(n int) string {
		q := a.URL.Query()
		q.Set("page", strconv.Itoa(n))
		q.Del("after")
		return a.URL.Path + "?" + q.Encode()
	}
	p := Pages{From: min(from+1, to), To: to, Of: len(all)}
	if n > 1 {
		p.Prev = link(n - 1)
	}
	if n < last {
		p.Next = link(n + 1)
	}
	return all[from:to], p
}

func (d *Dashboard) jobsView(a *ask) (*view, error) {
	query, state := strings.TrimSpace(a.URL.Query().Get("q")), a.URL.Query().Get("state")
	return &view{title: "Jobs", tab: "jobs", frame: "jobs.html", fixed: jobList{Query: query, State: state}, regions: func(context.Context) ([]region, error) {
		all, err := d.board.jobRows()
		if err != nil {
			return nil, err
		}
		list := jobList{Query: query, State: state}
		number := map[string]int{}
		var found []*jobRow
		for _, r := range all {
			number[r.State]++
			if (state == "" || r.State == state) && strings.Contains(r.Name, query) {
				found = append(found, r)
			}
		}
		for word, n := range number {
			list.States = append(list.States, count{word, n, "/jobs?state=" + word})
		}
		slices.SortFunc(list.States, func(a, b count) int { return jobUrgency[a.Word] - jobUrgency[b.Word] })
		list.Rows, list.Pages = pageOf(a, found)
		return []region{{"states", "states.html", list}, {"jobs", "jobtable.html", list}}, nil
	}}, nil
}

// jobDetail is what a job's page shows besides its stalls and tasks.
type jobDetail struct {
	*jobRow
	Job      *cluster.Job
	Versions []cluster.JobVersion // newest first
	Operator bool
	Actions  []*action
}

func (d *Dashboard) jobView(a *ask) (*view, error) {
	name := a.PathValue("name")
	if d.board.view().Job(name) == nil {
		return nil, notFound("job", name)
	}
	after, all := cluster.TaskID(a.URL.Query().Get("from")), a.URL.Query().Get("all") != ""
	return &view{
		title: name, tab: "jobs", frame: "job.html", fixed: name, tail: &eventTail{api: a.session.api, pages: d.pages, job: name, show: 20},
		regions: func(ctx context.Context) ([]region, error) {
			s := d.board.view()
			j := s.Job(name)
			row, err := d.board.row(name)
			if err != nil {
				return nil, err
			}
			if j == nil || row == nil {
				return nil, notFound("job", name)
			}
			detail := jobDetail{jobRow: row, Job: j, Versions: slices.Clone(j.Control.Versions), Operator: a.session.operator()}
			slices.Reverse(detail.Versions)
			if detail.Operator {
				detail.Actions = actionsOfJob(j)
			}
			tasks := tasksOf(s, name, "", after, all)
			tasks.Path = "/jobs/" + name
			return []region{
				{"job", "jobhead.html", detail},
				{"stalls", "stalls.html", stallList{Causes: d.board.stalledOf(ctx, name), Members: 10}},
				{"tasks", "tasktable.html", tasks},
				{"versions", "versions.html", detail},
			}, nil
		},
	}, nil
}

// taskRow is a task as lists show it.
type taskRow struct {
	ID      cluster.TaskID
	Job     string
	Node    string
	Phase   string
	Since   cluster.Time
	Version uint64
	Why     string
}

// taskList is a page of tasks in the order of their ids, from one on.
type taskList struct {
	Rows    []taskRow
	Path    string
	Next    cluster.TaskID // after which the next page begins; "": this is the last
	First   bool
	All     bool
	WithJob bool
}

// tasksOf returns some tasks of a job, or on a node, that come after one, the dead left out unless all are wanted. It costs what it shows and what it leaves out.
func tasksOf(s *engine.State, job string, node cluster.NodeID, after cluster.TaskID, all bool) taskList {
	out := taskList{First: after == "", All: all, WithJob: job == ""}
	for t := range s.TasksAfter(job, node, after) {
		if !all && t.Dead() {
			continue
		}
		if len(out.Rows) == pageRows {
			out.Next = out.Rows[pageRows-1].ID
			break
		}
		out.Rows = append(out.Rows, rowOfTask(s, t))
	}
	return out
}

func rowOfTask(s *engine.State, t *cluster.Task) taskRow {
	n := s.Node(t.Placement.Node)
	r := taskRow{ID: t.ID, Job: t.Job, Version: t.JobVersion, Why: t.Why, Phase: string(cluster.PhaseOf(t, n, len(s.TaskStalls(t)) > 0)), Since: t.Created}
	for _, at := range []cluster.Time{t.Placement.Since, t.Observed.At} {
		if r.Since.Before(at) {
			r.Since = at
		}
	}
	if !t.Desired.State.Wanted() {
		r.Why = t.Desired.Reason
		if r.Since.Before(t.Desired.Since) && !t.Dead() {
			r.Since = t.Desired.Since
		}
	} else if t.Observed.Message != "" {
		r.Why = t.Observed.Message
	}
	if t.Observed.Err != "" {
		r.Why = t.Observed.Err
	}
	if n != nil {
		r.Node = n.Spec.Name
	}
	return r
}
