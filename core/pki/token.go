package pki

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// tokenPrefix begins every join token; its number is the version of the format.
const tokenPrefix = "SPJT-1-"

// secretBytes is the size of a token's secret. 128 random bits cannot be guessed, so a plain hash of them may be stored.
const secretBytes = 16

// ErrTokenRefused is returned for a token that no stored one matches, whatever the reason: callers learn nothing from it.
var ErrTokenRefused = errors.New("join token refused")

// ErrTokenExpired is returned for a token that was good and is no longer.
var ErrTokenExpired = errors.New("join token expired")

// Token lets a machine join: it names the cluster's authority by fingerprint, so that the machine knows whom it talks to, and carries a
// secret, so that the server knows that the machine was asked to come. It is written SPJT-1-FINGERPRINT-SECRET.
type Token struct {
	Fingerprint Fingerprint
	secret      [secretBytes]byte
}

// NewToken makes a token with a random secret for the authority of that fingerprint.
func NewToken(authority Fingerprint) Token {
	return Token{Fingerprint: authority, secret: [secretBytes]byte(randomBytes(secretBytes))}
}

// ParseToken reads a token from its text. The error never repeats the text.
func ParseToken(text string) (Token, error) {
	body, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return Token{}, fmt.Errorf("parse join token: it does not begin with %s", tokenPrefix)
	}
	fingerprint, secret, ok := strings.Cut(body, "-")
	if !ok {
		return Token{}, errors.New("parse join token: its secret is missing")
	}
	var t Token
	if err := decode32(t.Fingerprint[:], fingerprint); err != nil {
		return Token{}, fmt.Errorf("parse join token: its fingerprint %w", err)
	}
	if err := decode32(t.secret[:], secret); err != nil {
		return Token{}, fmt.Errorf("parse join token: its secret %w", err)
	}
	return t, nil
}

// Text returns the whole token, secret included, for the one who is to join.
func (t Token) Text() string {
	return tokenPrefix + t.Fingerprint.String() + "-" + encode32(t.secret[:])
}

// String returns the token without its secret, so that printing or logging it by accident gives nothing away.
func (t Token) String() string { return tokenPrefix + t.Fingerprint.String() + "-…" }

// GoString is String: %#v must not print the secret either.
func (t Token) GoString() string { return t.String() }

// Hash returns what the server stores of the token.
func (t Token) Hash() TokenHash { return sha256.Sum256(t.secret[:]) }

// TokenHash is the SHA-256 of a token's secret. In text and JSON it is hexadecimal.
type TokenHash [sha256.Size]byte

// Matches reports in constant time whether the token is the one that was hashed.
func (h TokenHash) Matches(t Token) bool {
	other := t.Hash()
	return subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

// MarshalText returns the hash in hexadecimal.
func (h TokenHash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

// UnmarshalText reads a hash in hexadecimal.
func (h *TokenHash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("read token hash: it has %d characters, not %d", len(text), hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("read token hash: %w", err)
	}
	return nil
}

// StoredToken is what the server keeps of a token: enough to recognise it, too little to make it.
type StoredToken struct {
	Hash    TokenHash `json:"hash"`
	Role    Role      `json:"role"`             // what its user becomes
	Name    string    `json:"name,omitempty"`   // under which its bearer logs in; "": as he says himself
	Created time.Time `json:"created"`          // for people to read
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// Store returns what to keep of the token. A lifetime of zero means that it does not expire.
func (t Token) Store(role Role, now time.Time, lifetime time.Duration) StoredToken {
	s := StoredToken{Hash: t.Hash(), Role: role, Created: now}
	if lifetime > 0 {
		s.Expires = now.Add(lifetime)
	}
	return s
}

// FindToken returns the stored token that t is. All of them are compared, so the time taken tells nothing. The error is ErrTokenRefused if
// there is none, or if t is for none of the authorities, and ErrTokenExpired if its time has ended.
func FindToken(stored []StoredToken, authorities []Fingerprint, t Token, now time.Time) (StoredToken, error) {
	found := -1
	for i := range stored {
		if stored[i].Hash.Matches(t) {
			found = i
		}
	}
	if found < 0 || !slices.Contains(authorities, t.Fingerprint) {
		return StoredToken{}, ErrTokenRefused
	}
	if s := stored[found]; !s.Expires.IsZero() && !now.Before(s.Expires) {
		return StoredToken{}, ErrTokenExpired
	}
	return stored[found], nil
}

// decode32 fills dst from base32. Text that is not exactly what encode32 writes is refused, so a token has one spelling.
func decode32(dst []byte, text string) error {
	if len(text) != lower.EncodedLen(len(dst)) {
		return fmt.Errorf("has %d characters, not %d", len(text), lower.EncodedLen(len(dst)))
	}
	if _, err := lower.Decode(dst, []byte(text)); err != nil {
		return errors.New("has a character that is not of a to z and 2 to 7")
	}
	if encode32(dst) != text {
		return errors.New("is damaged at its end")
	}
	return nil
}
