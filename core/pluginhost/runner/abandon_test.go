package runner

import "testing"

func TestAbandonedPluginEnds(t *testing.T) {
	l, _ := newLauncher(t)
	p := start(t, l, play("lifeline-only"))
	p.Abandon()
	if exit := waitDone(t, p); exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("it %s, want status 0", exit)
	}
}
