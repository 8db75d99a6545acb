package place

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// kept is the cluster with what its owner may keep between calls.
func kept(c Cluster) Cluster {
	c.Order = NameOrder(c.Nodes)
	c.Open = NewBitmap(len(c.Nodes))
	c.Jobs = map[string]int{}
	for i, n := range c.Nodes {
		if n == nil {
			continue
		}
		if n.Takes() {
			c.Open.Set(i)
		}
		for job, tasks := range n.PerJob {
			c.Jobs[job] += tasks
		}
	}
	c.Ranking = &Ranking{}
	c.Ranking.Refresh(&c)
	return c
}

func TestWhatIsKeptMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		with := kept(w.Cluster)
		if got, want := Place(with, w.Groups), Place(w.Cluster, w.Groups); !reflect.DeepEqual(got, want) {
			t.Fatalf("places %+v, without %+v", got, want)
		}
		for _, g := range w.Groups {
			gotNode, got := Fit(with, g, nil)
			wantNode, want := Fit(w.Cluster, g, nil)
			if gotNode != wantNode || got != want {
				t.Fatalf("%s fits on %d %t, without on %d %t", g.Key, gotNode, got, wantNode, want)
			}
		}
	})
}
