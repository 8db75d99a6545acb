package main

// mutation is one fault: a piece of a file, which occurs there once, and what stands in its place.
type mutation struct {
	name      string
	file      string
	old, with string
}

// mutations are faults that people make. Each has to be found by playing.
var mutations = []mutation{
	{
		"skip a wake-up when room becomes free", "core/engine/apply_task.go",
		"e.ledger.free(i, t)\n\t\t\te.changedNodes[i] = true", "e.ledger.free(i, t)",
	},
	{
		"free room and ports when a task is told to stop", "core/engine/apply.go",
		"return t != nil && t.Placed() && !t.Dead() }", "return t != nil && t.Placed() && !t.Dead() && t.Desired.State.Wanted() }",
	},
	{
		"free a port early", "core/engine/ledger.go",
		"\tfor _, p := range t.ports {\n", "\tfor _, p := range t.ports[min(1, len(t.ports)):] {\n",
	},
	{
		"count a node twice", "core/place/standing.go",
		"Detail: r.detail, Count: s.counts[k]})", "Detail: r.detail, Count: s.counts[k] + k%2})",
	},
	{
		"forget a budget", "core/reconcile/moves.go",
		"if b.down(m.cause) >= b.limit {", "if b.down(m.cause) > b.limit+1 {",
	},
	{
		"let a verdict of a node as it was place tasks", "core/engine/verdicts.go",
		"f.Allowed, f.Pending, f.Ranks = c.allowed, p.unjudged(c), c.ranks", "f.Allowed, f.Pending, f.Ranks = c.allowed, nil, c.ranks",
	},
	{
		"let a verdict of a node as it was evict tasks", "core/engine/verdicts.go",
		"case p.unjudged(c).Get(int(i)):", "case false:",
	},
	{
		"drop a stall's end", "core/engine/group.go",
		"e.setStalls(e.work.StallsOf(groupSubject(key)), nil)", "_ = groupSubject(key)",
	},
	{
		"begin a stall anew when it changes", "core/engine/stalls.go",
		"s.Since = old.Since", "_ = old.Since",
	},
	{
		"restart without delay", "core/reconcile/fill.go",
		"due := r.Backoff(s.Backoff) - d.now.Sub(ended.At)", "due := r.Backoff(s.Backoff)/4 - d.now.Sub(ended.At)",
	},
	{
		"keep two tasks up", "core/reconcile/job.go",
		"case s.up && (t.lost || t.live()):", "case s.up && t.lost && t.live():",
	},
	{
		"start on a paused node", "sdk/cluster/node.go",
		"return n.Status.State == NodeReady && n.Spec.Availability == Active &&", "return n.Status.State == NodeReady && n.Spec.Availability != Drain &&",
	},
	{
		"start while another task of the slot still stops", "core/reconcile/fill.go",
		"\t\tcase t.stopping():\n\t\t\td.waitForStop(s, t)\n\t\t\treturn\n\t\tcase t.lost && !t.open:", "\t\tcase t.lost && !t.open:",
	},
	{
		"acknowledge before commit", "core/engine/agents.go",
		"e.acks = append(e.acks, in.Received)", "in.Received()",
	},
	{
		"take reports of a session that is over", "core/engine/agents.go",
		"if e.work.Node(in.Node) == nil || a == nil || a.session != in.Session {", "if e.work.Node(in.Node) == nil || a == nil {",
	},
	{
		"replace what is lost although the job waits", "core/reconcile/judge.go",
		"if out.lost && d.spec.OnLost != cluster.LostWait {", "if out.lost {",
	},
	{
		"forget to store a slot", "core/engine/apply.go",
		"e.touch(recordSlot, id)\n\t\te.wakeSlot", "e.wakeSlot",
	},
	{
		"forget a drain's deadline", "core/reconcile/moves.go",
		"if left := deadline - d.now.Engine; left > 0 {", "if left := deadline - d.now.Engine; left > 0 || true {",
	},
	{
		"forget the limit per node", "core/place/reason.go",
		"if limit := n.g.Reserve.MaxPerNode; limit > 0 && st.count(n) >= limit &&", "if limit := n.g.Reserve.MaxPerNode; limit > 0 && st.count(n) > limit &&",
	},
	{
		"move what drifts although the job keeps it", "core/reconcile/judge.go",
		"if j == nil || j.Control.Spec.OnDrift == cluster.DriftKeep || !t.Placed() {", "if j == nil || !t.Placed() {",
	},
	{
		"call a node ready before it has reported", "core/monitor/monitor.go",
		"case quiet < limits.Silent && h.Reported:", "case quiet < limits.Silent:",
	},
	{
		"place beside what runs without a record", "core/engine/agents.go",
		"case a.strays > 0:", "case false:",
	},
	{
		"tell of a drainer's failure after the drain", "core/engine/answers_drain.go",
		"\t\t\te.drainStall(p, n.ID, nil)\n", "",
	},
	{
		"let the stop of what was replaced bypass the restart rules", "core/reconcile/fill.go",
		"at(!t.Desired.State.Wanted(), t.Desired.Since)\n", "",
	},
	{
		"take no account of held slots in a batch job's turns", "core/reconcile/batch.go",
		"case s.status == unwanted || s.Done || !s.Ends:", "case s.status != wanted || s.Done || !s.Ends:",
	},
	{
		"place on nodes that have not reported", "core/engine/agents.go",
		"case !a.spoke:", "case false:",
	},
	{
		"say of a group that fits that it waits", "core/engine/group.go",
		"if g.stands.Fits() {", "if false {",
	},
	{
		"let a declaration that a node is gone end a delay", "core/reconcile/fill.go",
		"at(t.node.Status.State == cluster.NodeDown, t.node.Status.Since)", "at(t.lost, t.node.Status.Since)",
	},
	{
		"keep a turn that nobody takes", "core/reconcile/fill.go",
		"if d.queued > 0 {\n\t\t\td.wakeIn(1)", "if d.queued > 0 {\n\t\t\td.wakeIn(0)",
	},
	{
		"give an address twice", "core/engine/pools.go",
		"p.Taken[a] = t.ID", "_ = a",
	},
	{
		"give an address that is not the lowest", "core/place/pool.go",
		"\ta := st.next\n", "\ta := st.next.Next()\n",
	},
	{
		"wake nobody when an address is freed", "core/engine/pools.go",
		"g.dirty = g.dirty || changed[a.Pool]", "g.dirty = g.dirty || changed[a.Pool] && false",
	},
	{
		"leave pools out of the reasons", "core/place/reason.go",
		"if n.pools[k].short() && !yield(", "if n.pools[k].short() && false && !yield(",
	},
	{
		"rebalance without end", "core/reconcile/rebalance.go",
		"\t}\n\td.balance.Ended, d.balance.Since = true, d.now", "\t}\n\td.balance.Ended, d.balance.Since = false, d.now",
	},
	{
		"rebalance whatever nobody asked for", "core/reconcile/rebalance.go",
		"if !d.job.Rebalancing() {", "if d.spec.Ends() {",
	},
	{
		"rebalance beyond the budget", "core/reconcile/moves.go",
		"if b.down(m.cause) >= b.limit {", "if b.down(m.cause) >= b.limit && m.cause != cluster.CauseRebalance {",
	},
	{
		"replace lost nodes faster than the limit says", "core/monitor/monitor.go",
		"\t\tat = next\n", "\t\tat = now\n",
	},
	{
		"forget who is to be replaced before", "core/monitor/monitor.go",
		"if last.Before(h.Node.Status.Replace) {", "if last.Before(h.Node.Status.Replace) && !h.Node.Down() {",
	},
	{
		"replace before it is a node's turn", "core/reconcile/judge.go",
		"left := max(d.spec.LostAfter-d.now.Sub(n.Status.Since), n.Status.Replace.Sub(d.now))", "left := d.spec.LostAfter - d.now.Sub(n.Status.Since)",
	},
	{
		"take the failure of every filter as its consent", "core/engine/verdicts.go",
		"func (p *pluginState) ignored() bool { return !p.up && p.info.FailureOpen }", "func (p *pluginState) ignored() bool { return !p.up }",
	},
	{
		"count what fails its health check as up", "sdk/cluster/task.go",
		"return t.Desired.State.Wanted() && t.Observed.State == Running && t.Observed.Healthy &&", "return t.Desired.State.Wanted() && t.Observed.State == Running &&",
	},
	{
		"forget how welcome tasks are", "core/engine/verdicts.go",
		"f.Allowed, f.Pending, f.Ranks = c.allowed, p.unjudged(c), c.ranks", "f.Allowed, f.Pending, f.Ranks = c.allowed, p.unjudged(c), nil",
	},
	{
		"let a task wait for the nodes that its slot had", "core/reconcile/job.go",
		"case s.status == wanted && t.live() && !t.Placed() && !slices.Equal(t.Nodes, s.Nodes):", "case false:",
	},
	{
		"keep a waiting task of a held slot silent", "core/engine/state.go",
		"if string(v.Code) == slot.Held {", "if false {",
	},
	{
		"start what is held", "core/engine/apply.go",
		"return s == nil || s.Held == \"\"", "return s == nil || s.Held == \"\" || true",
	},
	{
		"decide nothing after what was observed", "core/engine/apply_task.go",
		"t.Observed = c.Observed\n\t\te.dirtyJobs[t.Job] = true\n", "t.Observed = c.Observed\n",
	},
	{
		"wait for no moment", "core/engine/step.go",
		"e.wakes.set(name, now.Engine+r.Wake)", "_ = name",
	},
}
