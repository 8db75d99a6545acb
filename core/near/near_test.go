package near

import (
	"slices"
	"testing"
)

func TestTo(t *testing.T) {
	names := []string{"web", "web-admin", "worker", "n1", "n2", "database", "constraint", "drain"}
	for word, want := range map[string][]string{
		"wbe": {"web"}, "wep": {"web"}, "wb": {"web"}, "Web": {"web"}, "webb": {"web"}, "workre": {"worker"}, "wokrer": {"worker"},
		"databse": {"database"}, "datbaes": {"database"}, "data": {"database"}, "constrant": {"constraint"}, "web-": {"web", "web-admin"}, "wor": {"worker"}, "web-a": {"web-admin"},
		"n3": {"n1", "n2"}, "x": nil, "q": nil, "unlike": nil, "": nil,
	} {
		if got := To(word, slices.Values(names)); !slices.Equal(got, want) {
			t.Errorf("To(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestQuestion(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, `Is "a" meant?`: {"a"}, `Is "a" or "b" meant?`: {"a", "b"}, `Is "a", "b" or "c" meant?`: {"a", "b", "c"},
	} {
		if got := Question(names); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abcd", "bcd", 1}, {"kitten", "sitting", 3}} {
		if got := distance(tt.a, tt.b, 10); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
