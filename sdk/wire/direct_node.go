package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (w *writer) node(n *cluster.Node) {
	w.text(1, string(n.ID))
	w.time(2, n.Joined)
	w.uint(3, uint64(n.Created))
	w.nodeSpec(4, &n.Spec)
	w.description(5, &n.Description)
	status := w.begin(6)
	w.text(1, string(n.Status.State))
	w.time(2, n.Status.Since)
	w.time(3, n.Status.Replace)
	w.flag(4, n.Status.Massed)
	w.end(status)
	drain := w.begin(7)
	w.text(1, string(n.Drain.State))
	w.time(2, n.Drain.Since)
	w.int(3, int64(n.Drain.Left))
	w.int(4, int64(n.Drain.Lost))
	w.end(drain)
	if n.Seen != (cluster.FieldRevisions{}) {
		seen := w.begin(8)
		for _, r := range n.Seen {
			w.varint(uint64(r))
		}
		w.end(seen)
	}
}

func (d *Decoder) node(b []byte, n *cluster.Node) {
	f := d.fields(b)
	for f.next() {
		switch f.num {
		case 1:
			n.ID = cluster.NodeID(part(d.name, 0, f.raw(false)))
		case 2:
			n.Joined = f.time()
		case 3:
			n.Created = cluster.Revision(f.uint())
		case 4:
			f.nodeSpec(&n.Spec)
		case 5:
			f.description(&n.Description)
		case 6:
			f.status(&n.Status)
		case 7:
			f.drain(&n.Drain)
		case 8:
			f.seen(&n.Seen)
		default:
			f.odd()
		}
	}
}

func (w *writer) nodeSpec(num number, s *cluster.NodeSpec) {
	at := w.begin(num)
	w.text(1, s.Name)
	w.labels(2, s.Labels)
	w.text(3, string(s.Availability))
	w.int(4, int64(s.DrainDeadline))
	w.time(5, s.DrainSince)
	w.flag(6, s.Decommissioned)
	w.text(7, s.AskedBy)
	w.uint(8, uint64(s.AskedRev))
	w.end(at)
}

func (f *fields) nodeSpec(s *cluster.NodeSpec) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			s.Name = in.text()
		case 2:
			s.Labels = in.label(s.Labels)
		case 3:
			s.Availability = cluster.Availability(in.shared())
		case 4:
			s.DrainDeadline = duration(in.int64())
		case 5:
			s.DrainSince = in.time()
		case 6:
			s.Decommissioned = in.flag()
		case 7:
			s.AskedBy = in.shared()
		case 8:
			s.AskedRev = cluster.Revision(in.uint())
		default:
			in.odd()
		}
	}
}

func (w *writer) description(num number, d *cluster.NodeDescription) {
	at := w.begin(num)
	w.text(1, d.Hostname)
	w.text(2, d.OS)
	w.text(3, d.Arch)
	writeTexts(w, 4, d.Addresses)
	w.labels(5, d.Attributes)
	writeTexts(w, 6, d.Drivers)
	w.resources(7, &d.Capacity)
	w.text(8, d.Version)
	w.end(at)
}

func (f *fields) description(d *cluster.NodeDescription) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			d.Hostname = in.text()
		case 2:
			d.OS = in.shared()
		case 3:
			d.Arch = in.shared()
		case 4:
			d.Addresses = readTexts(&in, d.Addresses)
		case 5:
			d.Attributes = in.label(d.Attributes)
		case 6:
			d.Drivers = readTexts(&in, d.Drivers)
		case 7:
			d.Capacity = in.resources()
		case 8:
			d.Version = in.shared()
		default:
			in.odd()
		}
	}
}

func (f *fields) status(s *cluster.NodeStatus) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			s.State = cluster.NodeState(in.shared())
		case 2:
			s.Since = in.time()
		case 3:
			s.Replace = in.time()
		case 4:
			s.Massed = in.flag()
		default:
			in.odd()
		}
	}
}

func (f *fields) drain(s *cluster.DrainStatus) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			s.State = cluster.DrainState(in.shared())
		case 2:
			s.Since = in.time()
		case 3:
			s.Left = in.int()
		case 4:
			s.Lost = in.int()
		default:
			in.odd()
		}
	}
}

// seen reads a list of numbers, which are packed into one field.
func (f *fields) seen(s *cluster.FieldRevisions) {
	in := f.message()
	for i := 0; in.at < in.end; i++ {
		n, ok := in.varint()
		if !ok || i == len(s) {
			f.odd()
			return
		}
		s[i] = cluster.Revision(n)
	}
}
