package wire

import "testing"

// fuzzDirect gives bytes to both ways of decoding, and what they made of them to both ways of encoding.
func fuzzDirect(f *testing.F, kind string) {
	f.Helper()
	for _, k := range directKinds {
		if k.kind != kind {
			continue
		}
		for _, leaf := range []int{-1, 0, 1, 5, 9} {
			v, _, _ := k.filled(leaf)
			b, err := AppendValue(nil, v)
			if err != nil {
				f.Fatal(err)
			}
			f.Add("x/1/1", b)
		}
	}
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		if v := sameAnswer(t, kind+"/"+name, value); v != nil {
			sameBytes(t, kind+"/"+name, v)
		}
	})
}

func FuzzDirectNode(f *testing.F) { fuzzDirect(f, KindNode) }

func FuzzDirectSlot(f *testing.F) { fuzzDirect(f, KindSlot) }

func FuzzDirectTask(f *testing.F) { fuzzDirect(f, KindTask) }

func FuzzDirectStall(f *testing.F) { fuzzDirect(f, KindStall) }
