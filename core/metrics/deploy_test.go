package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/metrics"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	rulesFile     = "../../deploy/prometheus/setpoint.rules.yml"
	rulesTestFile = "../../deploy/prometheus/setpoint.rules.test.yml"
	dashboardFile = "../../deploy/grafana/setpoint.json"
)

// offered returns the metrics of a server of which everything has happened, each with its labels.
func offered(t *testing.T) map[string][]string {
	t.Helper()
	m := metrics.New(sources())
	m.Timed(engine.Timing{Inputs: 1, Changes: 1})
	m.Committed(engine.Turn{Changes: []engine.Authored{
		{Change: cluster.SetObserved{Observed: cluster.Observed{State: cluster.Failed}}}, {Change: cluster.PutStall{Stall: &cluster.Stall{Code: cluster.CodePortTaken}}},
	}})
	label := regexp.MustCompile(`([a-z_]+)="`)
	out := map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^([a-z_]+)(\{[^}]*\})? `).FindAllStringSubmatch(scrape(t, m.Handler()), -1) {
		for _, l := range label.FindAllStringSubmatch(line[2], -1) {
			out[line[1]] = append(out[line[1]], l[1])
		}
		out[line[1]] = append(out[line[1]], "instance", "job") // which Prometheus adds
	}
	out["up"] = []string{"instance", "job"}
	return out
}

// queries returns the queries of the dashboard, its variables filled in.
func queries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	var out []string
	seen := map[int]bool{}
	fill := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	for _, p := range board.Panels {
		if p.Title == "" || seen[p.ID] {
			t.Errorf("panel %d %q has no title, or the id of another", p.ID, p.Title)
		}
		seen[p.ID] = true
		for _, q := range p.Targets {
			out = append(out, fill.Replace(q.Expr))
		}
	}
	for _, a := range board.Annotations.List {
		out = append(out, fill.Replace(a.Expr))
	}
	if len(out) < 30 {
		t.Errorf("only %d queries were found", len(out))
	}
	return out
}

// Rules and dashboard ask for nothing that a server does not offer.
func TestDeployAsksForWhatThereIs(t *testing.T) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	have := offered(t)
	name := regexp.MustCompile(`\b((?:setpoint|process|go)_[a-z_]+|up)(\{[^}]*\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	asked := queries(t)
	for _, expr := range regexp.MustCompile(`(?m)^ +expr: (?:([^|\n].*)|\|\n((?:          .+\n)+))`).FindAllStringSubmatch(string(rules), -1) {
		asked = append(asked, expr[1]+expr[2])
	}
	for _, q := range asked {
		found := name.FindAllStringSubmatch(q, -1)
		if len(found) == 0 {
			t.Errorf("%s: asks for no metric", q)
		}
		for _, m := range found {
			labels, ok := have[m[1]]
			if m[1] == "up" && !strings.HasPrefix(m[2], "{") { // a word in a value
				continue
			}
			if !ok {
				t.Errorf("%s: there is no metric %s", q, m[1])
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s: %s has no label %s", q, m[1], l[1])
				}
			}
		}
	}
}

// promtool runs Prometheus' own checker, which `make rules` builds.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool := os.Getenv("SETPOINT_PROMTOOL")
	if tool == "" {
		t.Skip("SETPOINT_PROMTOOL does not name promtool; make rules runs this test with it")
	}
	out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreGood(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	promtool(t, "test", "rules", rulesTestFile)
}

// Each alert has a case.
func TestRulesHaveCases(t *testing.T) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile(rulesTestFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(rules, -1) {
		if !regexp.MustCompile(`alertname: ` + string(alert[1]) + `\n +exp_alerts`).Match(cases) {
			t.Errorf("no case has %s told", alert[1])
		}
	}
}

func TestQueriesOfTheDashboardParse(t *testing.T) {
	var text strings.Builder
	fmt.Fprintln(&text, "groups:\n  - name: dashboard\n    rules:")
	for i, q := range queries(t) {
		fmt.Fprintf(&text, "      - record: query:%d\n        expr: %q\n", i, q)
	}
	path := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}
