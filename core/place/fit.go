package place

// Fit reports whether one task of g would find room once what freed names has been given back, and where: on the first node in freed that can take it, otherwise
// on the first other by name and id. Room that is claimed in c is not there; a task does not get the room that is claimed for its own slot either.
func Fit(c Cluster, g Group, freed []Use) (node int, ok bool) {
	jobs := []string{g.Job}
	for k := range freed {
		jobs = append(jobs, freed[k].Job)
	}
	v := newView(&c, jobs...)
	n := v.need(&g)
	for k := range freed {
		v.giveAddresses(freed[k].Addresses)
	}
	if !n.poolsFit() {
		return 0, false
	}
	gains := map[int]*state{}
	for k := range freed {
		i := freed[k].Node
		if !c.present(i) {
			continue
		}
		st := gains[i]
		if st == nil {
			st = &state{}
			v.fill(i, st)
			gains[i] = st
		}
		st.give(freed[k], v.jobs[freed[k].Job])
	}
	takes := func(i int, st *state) bool {
		return n.among(i) && c.open(i) && n.allows(i) && st.fits(n, st.count(n))
	}
	for k := range freed {
		if i := freed[k].Node; c.present(i) && takes(i, gains[i]) {
			return i, true
		}
	}
	var st state
	look := func(i int) {
		if !c.open(i) || gains[i] != nil || !n.allows(i) || ok && compareNames(c.Nodes[node], c.Nodes[i]) < 0 {
			return
		}
		if v.fill(i, &st); st.fits(n, st.count(n)) {
			node, ok = i, true
		}
	}
	if n.limited != nil {
		for _, i := range n.limited {
			look(i)
		}
		return node, ok
	}
	for i := range c.Nodes {
		look(i)
	}
	return node, ok
}
