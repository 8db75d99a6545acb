package sdktest

import (
	"context"

	"github.com/setpointd/setpoint/sdk"
)

// Test is what Conformance and Golden need of a *testing.T.
type Test[S any] interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Skip(args ...any)
	Run(name string, f func(S)) bool
}

// Conformance checks of a plugin all that the daemon relies on; t is a *testing.T. Each rule becomes a subtest, and one that is broken says what was sent,
// what came back, and what to do about it. plugin is called for each run of the plugin.
func Conformance[S Test[S]](t S, plugin func() sdk.Plugin, c Cases) {
	t.Helper()
	ConformanceOf(t, Go(plugin), c)
}

// ConformanceOf is Conformance of a plugin that is not a Go value, such as a Program.
func ConformanceOf[S Test[S]](t S, target Target, c Cases) {
	t.Helper()
	report, err := Check(t.Context(), target, c)
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	for i := range report.Results {
		r := &report.Results[i]
		t.Run(string(r.Rule), func(t S) {
			t.Helper()
			for _, note := range r.Notes {
				t.Logf("%s", note)
			}
			for _, v := range r.Violations {
				t.Errorf("the plugin breaks the rule %q: it %s\n%s", r.Rule, r.Promise, v)
			}
			if r.Outcome == Skip || r.Outcome == Blocked {
				t.Skip(r.Why)
			}
		})
	}
}
