package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (w *writer) stall(s *cluster.Stall) {
	w.text(1, string(s.Subject.Kind))
	w.text(2, s.Subject.ID)
	w.text(3, s.Source)
	w.text(4, string(s.Code))
	w.text(5, s.Message)
	w.time(6, s.Since)
	w.time(7, s.Changed)
	facts := w.begin(8)
	w.int(1, int64(s.Facts.Nodes))
	for i := range s.Facts.Excluded {
		e := &s.Facts.Excluded[i]
		at := w.begin(2)
		w.text(1, e.Source)
		w.text(2, string(e.Code))
		w.text(3, e.Detail)
		w.int(4, int64(e.Count))
		w.end(at)
	}
	w.end(facts)
	w.text(9, s.Clears)
}

func (d *Decoder) stall(b []byte, s *cluster.Stall) {
	f := d.fields(b)
	for f.next() {
		switch f.num {
		case 1:
			s.Subject.Kind = cluster.SubjectKind(f.shared())
		case 2:
			s.Subject.ID = part(d.name, len(s.Subject.Kind)+1, f.raw(false))
		case 3:
			s.Source = f.shared()
		case 4:
			s.Code = cluster.Code(f.shared())
		case 5:
			s.Message = f.shared()
		case 6:
			s.Since = f.time()
		case 7:
			s.Changed = f.time()
		case 8:
			f.facts(&s.Facts)
		case 9:
			s.Clears = f.shared()
		default:
			f.odd()
		}
	}
}

func (f *fields) facts(to *cluster.Facts) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			to.Nodes = in.int()
		case 2:
			to.Excluded = list(&in, to.Excluded, in.exclusion())
		default:
			in.odd()
		}
	}
}

func (f *fields) exclusion() (e cluster.Exclusion) {
	in := f.element()
	for in.next() {
		switch in.num {
		case 1:
			e.Source = in.shared()
		case 2:
			e.Code = cluster.Code(in.shared())
		case 3:
			e.Detail = in.shared()
		case 4:
			e.Count = in.int()
		default:
			in.odd()
		}
	}
	return e
}
