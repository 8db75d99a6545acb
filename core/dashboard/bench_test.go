package dashboard

import (
	"fmt"
	"testing"

	"github.com/setpointd/setpoint/core/pki"
)

// BenchmarkPages makes pages of clusters of several sizes, a hundred tasks a node: /first when nobody looked before, and /again when what was found is too old, as a
// page is made again while somebody looks.
func BenchmarkPages(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		w := newWorld(b)
		w.fillLarge(nodes)
		br := w.as(pki.RoleReader)
		for _, path := range []string{"/", "/stalls", "/jobs", "/jobs/job-007", "/nodes", "/nodes/n0042", "/tasks/job-007/1/3"} {
			b.Run(fmt.Sprintf("%s/nodes=%d/first", path, nodes), func(b *testing.B) {
				for b.Loop() {
					w.d.board = newBoard(w.d.board.opts)
					if status, _ := br.get(path); status != 200 {
						b.Fatalf("%s gave %d", path, status)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/nodes=%d/again", path, nodes), func(b *testing.B) {
				br.get(path)
				for b.Loop() {
					w.pass(memoWait)
					if status, _ := br.get(path); status != 200 {
						b.Fatalf("%s gave %d", path, status)
					}
				}
			})
		}
	}
}

// fillLarge makes a cluster of so many nodes, with a task of each of a hundred jobs on each; thirty tasks wait.
func (w *world) fillLarge(nodes int) {
	const jobs = 100
	var all []any
	for i := range nodes {
		all = append(all, node(fmt.Sprintf("%05d", i), fmt.Sprintf("n%04d", i)))
	}
	for j := range jobs {
		name := fmt.Sprintf("job-%03d", j)
		all = append(all, job(name, nodes))
		for s := range nodes {
			key := fmt.Sprint(s + 1)
			if s < 3 && j < 10 {
				all = append(all, slot(name, key, nil), waiting(name+"/"+key+"/3"))
				continue
			}
			all = append(all, slot(name, key, up), running(name+"/"+key+"/3", fmt.Sprintf("%05d", s)))
		}
		if j < 10 {
			all = append(all, groupStall(waiting(name+"/1/3"), "node.labels.disk == ssd"))
		}
	}
	w.set(2, all...)
}
