package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (w *writer) task(t *cluster.Task) {
	w.text(1, string(t.ID))
	w.text(2, t.Job)
	w.text(3, string(t.Slot))
	w.uint(4, t.JobVersion)
	w.uint(5, t.SpecVersion)
	w.time(6, t.Created)
	w.uint(7, uint64(t.CreatedRev))
	w.text(8, t.Why)
	w.text(9, string(t.Avoid))
	w.reserve(10, &t.Reserve)
	writeTexts(w, 11, t.Nodes)
	w.desired(12, &t.Desired)
	w.placement(13, &t.Placement)
	w.observed(14, &t.Observed)
	w.condition(15, &t.Condition)
}

func (d *Decoder) task(b []byte, t *cluster.Task) {
	f := d.fields(b)
	for f.next() {
		switch f.num {
		case 1:
			t.ID = cluster.TaskID(part(d.name, 0, f.raw(false)))
		case 2:
			t.Job = f.shared()
		case 3:
			t.Slot = cluster.SlotKey(part(string(t.ID), len(t.Job)+1, f.raw(false)))
		case 4:
			t.JobVersion = f.uint()
		case 5:
			t.SpecVersion = f.uint()
		case 6:
			t.Created = f.time()
		case 7:
			t.CreatedRev = cluster.Revision(f.uint())
		case 8:
			t.Why = f.shared()
		case 9:
			t.Avoid = cluster.NodeID(f.shared())
		case 10:
			f.reserve(&t.Reserve)
		case 11:
			t.Nodes = readTexts(&f, t.Nodes)
		case 12:
			f.desired(&t.Desired)
		case 13:
			f.placement(&t.Placement)
		case 14:
			f.observed(&t.Observed)
		case 15:
			f.condition(&t.Condition)
		default:
			f.odd()
		}
	}
}

func (w *writer) reserve(num number, r *cluster.Reserve) {
	at := w.begin(num)
	w.resources(1, &r.Resources)
	for i := range r.Ports {
		port := w.begin(2)
		w.text(1, r.Ports[i].Name)
		w.uint(2, uint64(r.Ports[i].Static))
		w.end(port)
	}
	w.int(3, int64(r.MaxPerNode))
	for i := range r.Addresses {
		address := w.begin(4)
		w.text(1, r.Addresses[i].Name)
		w.text(2, r.Addresses[i].Pool)
		w.end(address)
	}
	w.end(at)
}

func (f *fields) reserve(r *cluster.Reserve) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			r.Resources = in.resources()
		case 2:
			r.Ports = list(&in, r.Ports, in.reservedPort())
		case 3:
			r.MaxPerNode = in.int()
		case 4:
			r.Addresses = list(&in, r.Addresses, in.address())
		default:
			in.odd()
		}
	}
}

func (f *fields) reservedPort() (p cluster.Port) {
	in := f.element()
	for in.next() {
		switch in.num {
		case 1:
			p.Name = in.shared()
		case 2:
			p.Static = in.port()
		default:
			in.odd()
		}
	}
	return p
}

func (f *fields) address() (a cluster.Address) {
	in := f.element()
	for in.next() {
		switch in.num {
		case 1:
			a.Name = in.shared()
		case 2:
			a.Pool = in.shared()
		default:
			in.odd()
		}
	}
	return a
}

func (w *writer) desired(num number, d *cluster.Desired) {
	at := w.begin(num)
	w.uint(1, uint64(d.State))
	w.text(2, d.Reason)
	w.text(3, d.By)
	w.time(4, d.Since)
	w.int(5, int64(d.Grace))
	w.end(at)
}

func (f *fields) desired(d *cluster.Desired) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			d.State = cluster.DesiredState(in.upTo(uint64(cluster.DesiredRemove)))
		case 2:
			d.Reason = in.shared()
		case 3:
			d.By = in.shared()
		case 4:
			d.Since = in.time()
		case 5:
			d.Grace = duration(in.int64())
		default:
			in.odd()
		}
	}
}

func (w *writer) placement(num number, p *cluster.Placement) {
	at := w.begin(num)
	w.text(1, string(p.Node))
	w.time(2, p.Since)
	for i := range p.Ports {
		port := w.begin(3)
		w.text(1, p.Ports[i].Name)
		w.uint(2, uint64(p.Ports[i].Number))
		w.end(port)
	}
	if a := &p.Among; *a != (cluster.Among{}) {
		among := w.begin(8)
		w.int(1, int64(a.Nodes))
		w.int(2, int64(a.Allowed))
		w.int(3, int64(a.Rank))
		w.int(4, int64(a.Beside))
		w.end(among)
	}
	for i := range p.Addresses {
		address := w.begin(9)
		w.text(1, p.Addresses[i].Name)
		w.text(2, p.Addresses[i].Pool)
		w.text(3, p.Addresses[i].Address)
		w.end(address)
	}
	w.end(at)
}

func (f *fields) placement(p *cluster.Placement) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			p.Node = cluster.NodeID(in.shared())
		case 2:
			p.Since = in.time()
		case 3:
			p.Ports = list(&in, p.Ports, in.grantedPort())
		case 8:
			in.among(&p.Among)
		case 9:
			p.Addresses = list(&in, p.Addresses, in.grantedAddress())
		default:
			in.odd()
		}
	}
}

func (f *fields) grantedPort() (p cluster.PortGrant) {
	in := f.element()
	for in.next() {
		switch in.num {
		case 1:
			p.Name = in.shared()
		case 2:
			p.Number = in.port()
		default:
			in.odd()
		}
	}
	return p
}

func (f *fields) grantedAddress() (a cluster.AddressGrant) {
	in := f.element()
	for in.next() {
		switch in.num {
		case 1:
			a.Name = in.shared()
		case 2:
			a.Pool = in.shared()
		case 3:
			a.Address = in.text()
		default:
			in.odd()
		}
	}
	return a
}

func (f *fields) among(a *cluster.Among) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			a.Nodes = in.int()
		case 2:
			a.Allowed = in.int()
		case 3:
			a.Rank = in.int()
		case 4:
			a.Beside = in.int()
		default:
			in.odd()
		}
	}
}

func (w *writer) observed(num number, o *cluster.Observed) {
	at := w.begin(num)
	w.uint(1, uint64(o.State))
	w.text(2, o.Message)
	w.text(3, o.Err)
	w.int(4, int64(o.ExitCode))
	w.flag(5, o.Healthy)
	w.flag(6, o.Unknown)
	w.time(7, o.At)
	w.end(at)
}

func (f *fields) observed(o *cluster.Observed) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			o.State = cluster.ObservedState(in.upTo(uint64(cluster.Stopped)))
		case 2:
			o.Message = in.shared()
		case 3:
			o.Err = in.shared()
		case 4:
			o.ExitCode = in.int()
		case 5:
			o.Healthy = in.flag()
		case 6:
			o.Unknown = in.flag()
		case 7:
			o.At = in.time()
		default:
			in.odd()
		}
	}
}

func (w *writer) condition(num number, c *cluster.Condition) {
	at := w.begin(num)
	w.text(1, string(c.State))
	w.time(2, c.Since)
	w.text(3, c.Reason)
	w.end(at)
}

func (f *fields) condition(c *cluster.Condition) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			c.State = cluster.ConditionState(in.shared())
		case 2:
			c.Since = in.time()
		case 3:
			c.Reason = in.shared()
		default:
			in.odd()
		}
	}
}
