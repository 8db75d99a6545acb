package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func (a *app) nodeCommand() *cobra.Command {
	return group("node", "See nodes, label them, empty them, and take them out",
		a.nodeList(), named(a.nodeInspect()), a.nodeLabel(),
		a.orTry(a.asks(a.nodeDrain(), tryAvailability("drain")), tryAvailability("drain")),
		a.orTry(a.nodeActivate(), tryAvailability("active")), a.orTry(a.nodePause(), tryAvailability("pause")),
		a.orTry(a.asking(a.nodeDecommission(), a.decommissionQuestion), tryDecommission), a.asking(a.nodeConfirmDown(), a.confirmDownQuestion), a.nodeRemove())
}

func (a *app) nodeList() *cobra.Command {
	return list(a, &cobra.Command{
		Use: "ls", Short: "List nodes",
		Example: "  setpoint node ls -o wide\n  setpoint node ls -l zone=a,disk!=hdd --watch\n  setpoint node ls -l zone=a -o name | xargs setpoint node pause",
	}, &listing[*apiv1.Node]{
		fetch: listNodes, view: viewed(view.OfNodes), labels: (*apiv1.Node).GetLabels,
		columns: []column[*apiv1.Node]{
			{"NAME", func(_ pen, n *apiv1.Node) string { return n.GetName() }, always},
			{"STATE", func(p pen, n *apiv1.Node) string { return nodeState(p.style, n) }, always},
			{"FOR", func(p pen, n *apiv1.Node) string { return ago(p.now, n.GetSince()) }, ages},
			{"AVAILABILITY", func(p pen, n *apiv1.Node) string { return availability(p.style, n) }, always},
			{"TASKS", func(_ pen, n *apiv1.Node) string { return fmt.Sprint(n.GetTasks()) }, always},
			{"CPU USED", func(_ pen, n *apiv1.Node) string {
				return console.CPU(n.GetUsed().GetMilliCpu()) + " of " + console.CPU(n.GetCapacity().GetMilliCpu())
			}, always},
			{"MEMORY USED", func(_ pen, n *apiv1.Node) string {
				return console.Bytes(n.GetUsed().GetMemoryBytes()) + " of " + console.Bytes(n.GetCapacity().GetMemoryBytes())
			}, always},
			{"ID", func(_ pen, n *apiv1.Node) string { return n.GetId() }, wide},
			{"AGENT", func(_ pen, n *apiv1.Node) string { return n.GetDescription().GetVersion() }, wide},
			{"ADDRESSES", func(_ pen, n *apiv1.Node) string { return strings.Join(n.GetDescription().GetAddresses(), " ") }, wide},
			{"LABELS", func(_ pen, n *apiv1.Node) string { return pairs(n.GetLabels()) }, long},
		},
	})
}

// listNodes returns all nodes by their names.
func listNodes(ctx context.Context, s *server) ([]*apiv1.Node, error) {
	nodes, err := pages(func(token string) (*apiv1.ListNodesResponse, error) {
		return ask(ctx, s, s.ListNodes, &apiv1.ListNodesRequest{PageToken: token})
	}, func(r *apiv1.ListNodesResponse) ([]*apiv1.Node, string) { return r.GetNodes(), r.GetNextPageToken() })
	slices.SortStableFunc(nodes, func(a, b *apiv1.Node) int { return strings.Compare(a.GetName(), b.GetName()) })
	return nodes, err
}

func nodeState(style console.Style, n *apiv1.Node) string {
	switch {
	case n.GetDecommissioned():
		return style.Faint("decommissioned")
	case n.GetState() == "ready":
		return style.Green(n.GetState())
	case n.GetState() == "down":
		return style.Red(n.GetState())
	}
	return style.Yellow(n.GetState())
}

func availability(style console.Style, n *apiv1.Node) string {
	if n.GetDrain().GetState() != "" {
		return style.Yellow(drainText(n))
	}
	if n.GetAvailability() != "active" {
		return style.Yellow(n.GetAvailability())
	}
	return n.GetAvailability()
}

// drainText says how far a drain has come, and when its deadline ends the waiting for budgets.
func drainText(n *apiv1.Node) string {
	d := n.GetDrain()
	switch {
	case d.GetState() == "drained" && d.GetLost() > 0:
		return fmt.Sprintf("drained, %d lost, not confirmed", d.GetLost())
	case d.GetState() == "drained":
		return "drained"
	}
	text := fmt.Sprintf("draining (%d left)", d.GetLeft())
	if until := d.GetUntil(); until != nil {
		text += ", deadline at " + timeOf(until).Local().Format(time.TimeOnly)
	}
	return text
}

func (a *app) nodeInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect NAME", Short: "Show all of a node", Args: takes(1, 1),
		Example: "  setpoint node inspect n1",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetNode, &apiv1.GetNodeRequest{Node: args[0]})
			if err != nil {
				return err
			}
			return a.print(view.OfNode(res.GetNode()), func(w io.Writer, style console.Style) { writeNode(w, style, time.Now(), res.GetNode()) })
		},
	}
}

func writeNode(w io.Writer, style console.Style, now time.Time, n *apiv1.Node) {
	d := n.GetDescription()
	rows := console.NewTable(style.Bold(n.GetName()), nodeState(style, n)+" for "+ago(now, n.GetSince()))
	rows.Row("id", n.GetId())
	rows.Row("availability", availability(style, n))
	rows.Row("labels", pairs(n.GetLabels()))
	rows.Row("capacity", resourcesText(n.GetCapacity()))
	rows.Row("used", resourcesText(n.GetUsed()))
	rows.Row("free", resourcesText(n.GetFree()))
	for _, p := range n.GetPools() {
		rows.Row("pool "+p.GetName(), fmt.Sprintf("%d of the %d addresses of %s are used", p.GetUsed(), p.GetTotal(), p.GetCidr()))
	}
	rows.Row("tasks", fmt.Sprint(n.GetTasks()))
	rows.Row("host", sentence(d.GetHostname(), d.GetOs()+"/"+d.GetArch(), strings.Join(d.GetAddresses(), " ")))
	rows.Row("drivers", strings.Join(d.GetDrivers(), " "))
	rows.Row("attributes", pairs(d.GetAttributes()))
	rows.Row("agent", d.GetVersion())
	rows.Row("joined", ago(now, n.GetJoined())+" ago")
	rows.Write(w, console.Style{})
	writeHolders(w, style, n.GetHolders())
	writeStalls(w, style, now, n.GetStalls())
}

// writeHolders says which tasks take what of a node.
func writeHolders(w io.Writer, style console.Style, holders []*apiv1.Holder) {
	if len(holders) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := console.NewTable("HELD BY", "PHASE", "CPU", "MEMORY", "UNITS", "PORTS", "ADDRESSES")
	for _, h := range holders {
		var ports, addresses []string
		for _, p := range h.GetPorts() {
			ports = append(ports, fmt.Sprintf("%d (%s)", p.GetNumber(), p.GetName()))
		}
		for _, a := range h.GetAddresses() {
			addresses = append(addresses, fmt.Sprintf("%s (%s)", a.GetAddress(), a.GetPool()))
		}
		r := h.GetReserves()
		table.Row(h.GetTask(), h.GetPhase(), console.CPU(r.GetMilliCpu()), console.Bytes(r.GetMemoryBytes()), unitsText(r.GetUnits()),
			strings.Join(ports, " "), strings.Join(addresses, " "))
	}
	table.Write(w, style)
}

func resourcesText(r *setpointv1.Resources) string {
	text := console.CPU(r.GetMilliCpu()) + " cpu, " + console.Bytes(r.GetMemoryBytes())
	if units := unitsText(r.GetUnits()); units != "" {
		text += ", " + units
	}
	return text
}

// unitsText writes named units in the order of their names.
func unitsText(units map[string]int64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(units)) {
		out = append(out, fmt.Sprintf("%d %s", units[name], name))
	}
	return strings.Join(out, ", ")
}

func (a *app) setAvailability(ctx context.Context, req *apiv1.SetAvailabilityRequest) error {
	s, err := a.connect()
	if err != nil {
		return err
	}
	res, err := ask(ctx, s, s.SetAvailability, req)
	if err != nil {
		return err
	}
	return a.printNodes(res.GetNodes())
}

// printNodes prints what came of a command about nodes: with JSON one object for one node, and a list for several.
func (a *app) printNodes(nodes []*apiv1.NodeResponse) error {
	if a.structured() {
		if len(nodes) == 1 {
			return a.printValue(view.OfNodeChange(nodes[0]))
		}
		all := []view.NodeChange{}
		for _, res := range nodes {
			all = append(all, view.OfNodeChange(res))
		}
		return a.printValue(all)
	}
	style := a.style(a.out)
	for _, res := range nodes {
		text := availability(style, res.GetNode())
		if !res.GetChanged() {
			text = "nothing to change (" + text + ")"
		}
		fmt.Fprintf(a.out, "%s: %s\n", res.GetNode().GetName(), text)
	}
	return nil
}

func (a *app) nodeActivate() *cobra.Command {
	return &cobra.Command{
		Use: "activate NAME…", Short: "Let nodes take tasks again", Args: takes(1, -1),
		Example: "  setpoint node activate n1 n2",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setAvailability(cmd.Context(), &apiv1.SetAvailabilityRequest{Nodes: args, Availability: "active"})
		},
	}
}

func (a *app) nodePause() *cobra.Command {
	return &cobra.Command{
		Use: "pause NAME…", Short: "Keep what runs on nodes and start nothing new there, restarts included", Args: takes(1, -1),
		Example: "  setpoint node pause n1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setAvailability(cmd.Context(), &apiv1.SetAvailabilityRequest{Nodes: args, Availability: "pause"})
		},
	}
}

func (a *app) nodeDecommission() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "decommission NAME", Short: "Declare that a node never comes back: its tasks are gone and are replaced", Args: takes(1, 1),
		Long: `Declares that a node never comes back: its tasks are gone, and are replaced elsewhere.

For a node that is not down it needs --force: its tasks may still run, and would then run twice until its agent hears of it.`,
		Example: "  setpoint node decommission n3 --dry-run\n  setpoint node decommission n3 && setpoint node rm n3",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.DecommissionNode, &apiv1.DecommissionNodeRequest{Node: args[0], Force: force})
			if err != nil {
				return err
			}
			return a.print(view.OfNodeChange(res), func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%s: decommissioned; `setpoint node rm %s` drops its record\n", res.GetNode().GetName(), res.GetNode().GetName())
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also a node that is not down; its tasks may run twice")
	return cmd
}

// decommissionQuestion is asked of every node, also of one without tasks: it is for ever.
func (a *app) decommissionQuestion(cmd *cobra.Command, args []string) (string, error) {
	what, err := tryDecommission(cmd, args)
	if err != nil {
		return "", err
	}
	s, err := a.connect()
	if err != nil {
		return "", err
	}
	text, err := a.wouldStop(cmd.Context(), s, what)
	if text == "" {
		text = "no task is touched."
	}
	return "the node never comes back, and its tasks are gone: " + text, err
}

func (a *app) nodeConfirmDown() *cobra.Command {
	return &cobra.Command{
		Use: "confirm-down NAME…", Short: "Say of silent nodes, when most are silent, that these are down", Args: takes(1, -1),
		Example: "  setpoint node confirm-down n3 n4",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := ask(cmd.Context(), s, s.ConfirmDown, &apiv1.ConfirmDownRequest{Nodes: args}); err != nil {
				return err
			}
			return a.print(map[string]any{"nodes": args, "down": true}, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%s: down\n", strings.Join(args, ", "))
			})
		},
	}
}

// confirmDownQuestion says how many tasks would be taken for lost.
func (a *app) confirmDownQuestion(cmd *cobra.Command, args []string) (string, error) {
	s, err := a.connect()
	if err != nil {
		return "", err
	}
	var tasks int64
	for _, name := range args {
		res, err := ask(cmd.Context(), s, s.GetNode, &apiv1.GetNodeRequest{Node: name})
		if err != nil {
			return "", err
		}
		tasks += res.GetNode().GetTasks()
	}
	if tasks == 0 {
		return "", nil
	}
	return console.Count(tasks, "task") + " would be taken for lost and replaced; if they run, they run twice until the agents are heard of again.", nil
}

func (a *app) nodeRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "Drop the record of a node that was decommissioned", Args: takes(1, 1),
		Example: "  setpoint node decommission n3 && setpoint node rm n3",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := ask(cmd.Context(), s, s.RemoveNode, &apiv1.RemoveNodeRequest{Node: args[0]}); err != nil {
				return err
			}
			return a.print(map[string]any{"name": args[0], "removed": true}, func(w io.Writer, _ console.Style) {
				fmt.Fprintf(w, "%s: removed\n", args[0])
			})
		},
	}
}
