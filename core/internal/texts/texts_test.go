package texts

import (
	"fmt"
	"strings"
	"testing"
)

func TestTextsStayAsTheyWere(t *testing.T) {
	room := Room{Size: 64}
	buf := make([]byte, 0, 200)
	var got, want []string
	for i := range 100 {
		text := fmt.Sprint(strings.Repeat("x", i), i)
		buf = append(buf[:0], text...) // whose bytes are used again
		got, want = append(got, room.Text(buf)), append(want, text)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("text %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestManyTextsTakeFewPieces(t *testing.T) {
	room := Room{Size: 1000}
	ten := []byte("0123456789")
	if n := testing.AllocsPerRun(10, func() {
		for range 100 {
			room.Text(ten)
		}
	}); n > 1 {
		t.Errorf("100 texts of 10 bytes took %.1f pieces of 1,000, want one", n)
	}
}
