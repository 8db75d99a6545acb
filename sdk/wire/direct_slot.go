package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (w *writer) slot(s *cluster.Slot) {
	w.text(1, s.Job)
	w.text(2, string(s.Key))
	w.uint(3, uint64(s.Created))
	writeTexts(w, 4, s.Nodes)
	w.flag(5, s.Ends)
	w.flag(6, s.Unwanted)
	w.text(7, s.Held)
	w.uint(8, s.Version)
	w.uint(9, s.SpecVersion)
	for _, t := range s.Restarts {
		w.timeElement(10, t)
	}
	w.int(11, int64(s.Backoff))
	w.uint(12, s.SpentFor)
	w.text(13, string(s.AvoidNode))
	w.time(14, s.NotUpSince)
	w.text(15, string(s.NotUpWhy))
	w.time(16, s.UpSince)
	w.flag(17, s.EverUp)
	w.flag(18, s.Done)
	w.text(19, s.MovedBy)
	w.uint(20, s.MovedIn)
	w.flag(21, s.Counted)
	w.text(22, string(s.Claim))
	w.flag(23, s.Failed)
	w.text(24, string(s.Leaves))
	w.flag(25, s.Fresh)
}

func (d *Decoder) slot(b []byte, s *cluster.Slot) {
	f := d.fields(b)
	for f.next() {
		switch f.num {
		case 1:
			s.Job = f.shared()
		case 2:
			s.Key = cluster.SlotKey(part(d.name, len(s.Job)+1, f.raw(false)))
		case 3:
			s.Created = cluster.Revision(f.uint())
		case 4:
			s.Nodes = readTexts(&f, s.Nodes)
		case 5:
			s.Ends = f.flag()
		case 6:
			s.Unwanted = f.flag()
		case 7:
			s.Held = f.shared()
		case 8:
			s.Version = f.uint()
		case 9:
			s.SpecVersion = f.uint()
		case 10:
			s.Restarts = list(&f, s.Restarts, f.readTime(true))
		case 11:
			s.Backoff = f.int()
		case 12:
			s.SpentFor = f.uint()
		case 13:
			s.AvoidNode = cluster.NodeID(f.shared())
		case 14:
			s.NotUpSince = f.time()
		case 15:
			s.NotUpWhy = cluster.NotUpWhy(f.shared())
		case 16:
			s.UpSince = f.time()
		default:
			f.slot(s)
		}
	}
}

// slot reads one of the later fields of a slot.
func (f *fields) slot(s *cluster.Slot) {
	switch f.num {
	case 17:
		s.EverUp = f.flag()
	case 18:
		s.Done = f.flag()
	case 19:
		s.MovedBy = f.shared()
	case 20:
		s.MovedIn = f.uint()
	case 21:
		s.Counted = f.flag()
	case 22:
		s.Claim = cluster.NodeID(f.shared())
	case 23:
		s.Failed = f.flag()
	case 24:
		s.Leaves = cluster.NodeID(f.shared())
	case 25:
		s.Fresh = f.flag()
	default:
		f.odd()
	}
}
