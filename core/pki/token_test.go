package pki

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTokenText(t *testing.T) {
	fingerprint := Fingerprint{0: 1, 31: 0xff}
	token := NewToken(fingerprint)
	text := token.Text()
	// 32 bytes are 52 characters and 16 bytes are 26.
	if !strings.HasPrefix(text, "SPJT-1-aeaaaaaaaaaa") || len(text) != len("SPJT-1-")+52+1+26 {
		t.Errorf("text %q", text)
	}
	back, err := ParseToken(text)
	if err != nil || back != token {
		t.Errorf("parsed to %v, %v", back, err)
	}
	if NewToken(fingerprint) == token {
		t.Error("two tokens are equal")
	}
	secret := text[len(text)-26:]
	for _, verb := range []string{"%v", "%s", "%+v", "%#v"} {
		if shown := fmt.Sprintf(verb, token); strings.Contains(shown, secret) || !strings.HasPrefix(shown, "SPJT-1-aeaa") {
			t.Errorf("%s prints %s", verb, shown)
		}
	}
}

func TestParseTokenRefuses(t *testing.T) {
	text := NewToken(Fingerprint{}).Text()
	dash := strings.LastIndex(text, "-")
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                  {"", "does not begin with SPJT-1-"},
		"another format":         {"SPJT-2-" + text[7:], "does not begin with SPJT-1-"},
		"no secret":              {text[:dash], "its secret is missing"},
		"short secret":           {text[:len(text)-1], "has 25 characters, not 26"},
		"long secret":            {text + "a", "has 27 characters, not 26"},
		"short fingerprint":      {"SPJT-1-abc" + text[dash:], "its fingerprint has 3 characters, not 52"},
		"upper case":             {strings.ToUpper(text), "has a character"},
		"a character that isn't": {text[:len(text)-2] + "1a", "its secret has a character"},
		// 26 characters are 130 bits; a last one that sets the two spare bits is another spelling.
		"damaged end": {text[:dash+1] + strings.Repeat("a", 25) + "b", "its secret is damaged at its end"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseToken(tc.text)
			wantError(t, err, tc.want)
			if len(tc.text) > 40 && strings.Contains(err.Error(), tc.text[len(tc.text)-20:]) {
				t.Errorf("the error repeats the secret: %v", err)
			}
		})
	}
}

func TestFindToken(t *testing.T) {
	now := time.Now()
	fingerprint := Fingerprint{1}
	node, operator, unknown := NewToken(fingerprint), NewToken(fingerprint), NewToken(fingerprint)
	stored := []StoredToken{node.Store(RoleNode, now, 0), operator.Store(RoleOperator, now, time.Hour)}

	elsewhere := node
	elsewhere.Fingerprint = Fingerprint{2}
	tampered := node
	tampered.secret[15] ^= 1
	for name, tc := range map[string]struct {
		token Token
		at    time.Time
		role  Role
		err   error
	}{
		"never expires":           {node, now.Add(CAValidity), RoleNode, nil},
		"within its time":         {operator, now.Add(time.Hour - time.Nanosecond), RoleOperator, nil},
		"expired":                 {operator, now.Add(time.Hour), "", ErrTokenExpired},
		"unknown":                 {unknown, now, "", ErrTokenRefused},
		"tampered by one bit":     {tampered, now, "", ErrTokenRefused},
		"good secret, another CA": {elsewhere, now, "", ErrTokenRefused},
		"the zero token":          {Token{}, now, "", ErrTokenRefused},
		"zero secret of this one": {Token{Fingerprint: fingerprint}, now, "", ErrTokenRefused},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FindToken(stored, []Fingerprint{{9}, fingerprint}, tc.token, tc.at)
			if !errors.Is(err, tc.err) || got.Role != tc.role {
				t.Errorf("role %q, error %v; want %q, %v", got.Role, err, tc.role, tc.err)
			}
		})
	}
	if _, err := FindToken(nil, []Fingerprint{fingerprint}, node, now); !errors.Is(err, ErrTokenRefused) {
		t.Errorf("without any stored: %v", err)
	}
}

func TestStoredTokenJSON(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	token := NewToken(Fingerprint{})
	want := token.Store(RoleNode, now, time.Hour)
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), encode32(token.secret[:])) {
		t.Errorf("the secret is stored: %s", data)
	}
	var got StoredToken
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{`{"hash":"ab"}`, `{"hash":"` + strings.Repeat("x", 64) + `"}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(NewToken(Fingerprint{}).Text())
	f.Add("SPJT-1--")
	f.Add("SPJT-1-" + strings.Repeat("a", 52) + "-" + strings.Repeat("7", 26))
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err == nil && token.Text() != text {
			t.Errorf("%q is read and written as %q", text, token.Text())
		}
	})
}
