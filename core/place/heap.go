package place

// entry is a node in the order in which a group wants its nodes.
type entry struct {
	high, low uint64 // see queue.entry
	node      int32
	count     int32 // tasks of the group's job there
}

func (a entry) less(b entry) bool { return a.high < b.high || a.high == b.high && a.low < b.low }

// pile is a binary heap of nodes that fit, the most wanted first.
type pile []entry

// init orders a pile that was filled at will.
func (p pile) init() {
	for i := len(p)/2 - 1; i >= 0; i-- {
		p.down(i)
	}
}

func (p pile) down(i int) {
	e := p[i]
	for {
		child := 2*i + 1
		if child >= len(p) {
			break
		}
		if right := child + 1; right < len(p) && p[right].less(p[child]) {
			child = right
		}
		if !p[child].less(e) {
			break
		}
		p[i] = p[child]
		i = child
	}
	p[i] = e
}

func (p pile) up(i int) {
	for i > 0 && p[i].less(p[(i-1)/2]) {
		p[i], p[(i-1)/2] = p[(i-1)/2], p[i]
		i = (i - 1) / 2
	}
}

func (p *pile) push(e entry) {
	*p = append(*p, e)
	p.up(len(*p) - 1)
}

// remove takes the entry at i out.
func (p *pile) remove(i int) {
	last := len(*p) - 1
	moved := (*p)[last]
	if *p = (*p)[:last]; i == last {
		return
	}
	(*p)[i] = moved
	p.down(i)
	p.up(i)
}

// find returns where a node is, or -1.
func (p pile) find(node int) int {
	for i := range p {
		if p[i].node == int32(node) {
			return i
		}
	}
	return -1
}
