package pki

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// registering is an authority with a register.
type registering struct {
	t *testing.T
	*Authority
	*Register
	path string
	now  time.Time
}

func newRegistering(t *testing.T) *registering {
	t.Helper()
	r := &registering{t: t, path: filepath.Join(t.TempDir(), "certificates.jsonl"), now: time.Now()}
	var err error
	if r.Authority, err = NewAuthority("c1", r.now); err != nil {
		t.Fatal(err)
	}
	r.open()
	return r
}

func (r *registering) open() {
	r.t.Helper()
	var err error
	if r.Register, err = OpenRegister(r.path, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// issue makes a certificate, which is registered unless an earlier version made it.
func (r *registering) issue(id Identity, register bool) *Pair {
	r.t.Helper()
	p, err := r.Issue(r.now, id)
	if err == nil && register {
		err = r.Add(p.Certificate(), r.now)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// serves fails unless a certificate is accepted or refused, now and after a restart.
func (r *registering) serves(p *Pair, want bool) {
	r.t.Helper()
	for range 2 {
		err := r.Check(p.Identity(), Serial(p.Certificate()))
		if (err == nil) != want || err != nil && !errors.Is(err, ErrRevoked) {
			r.t.Errorf("%s: %v, want it to serve: %t", p.Identity(), err, want)
		}
		r.open()
	}
}

// Who means a node is told so, and not that its certificate serves no more.
func TestRevokeTheNameOfANode(t *testing.T) {
	r := newRegistering(t)
	node := r.issue(Identity{Role: RoleNode, Name: "worker", NodeID: "n2"}, true)
	if got, err := r.RevokeName(Revocation{Name: "worker"}); !errors.Is(err, ErrNotAPersons) {
		t.Errorf("%v, %v", got, err)
	}
	r.serves(node, true)
	r.serves(r.issue(Identity{Role: RoleReader, Name: "worker"}, true), true)
	if got, err := r.RevokeName(Revocation{Name: "worker"}); err != nil || len(got) != 1 {
		t.Errorf("a person of that name: %v, %v", got, err)
	}
}

func TestRevoke(t *testing.T) {
	r := newRegistering(t)
	ann, ann2, bob := r.issue(Identity{Role: RoleOperator, Name: "ann"}, true), r.issue(Identity{Role: RoleReader, Name: "ann"}, true), r.issue(Identity{Role: RoleAdmin, Name: "bob"}, true)
	old := r.issue(Identity{Role: RoleAdmin, Name: "ann"}, false)
	node := r.issue(Identity{Role: RoleNode, Name: "ann", NodeID: "n1"}, true)
	for _, p := range []*Pair{ann, ann2, bob, old, node} {
		r.serves(p, true)
	}
	if got, err := r.RevokeSerial(Revocation{Serial: strings.ToUpper(Serial(ann.Certificate())), At: r.now, By: "bob"}); err != nil || len(got) != 1 || got[0].Name != "ann" {
		t.Errorf("revoked %v, %v", got, err)
	}
	r.serves(ann, false)
	for _, p := range []*Pair{ann2, bob, old, node} {
		r.serves(p, true)
	}
	got, err := r.RevokeName(Revocation{Name: "ann", At: r.now, By: "bob", Reason: "left"})
	if err != nil || len(got) != 1 || got[0].Serial != Serial(ann2.Certificate()) {
		t.Errorf("revoked %v, %v", got, err)
	}
	r.serves(ann2, false)
	r.serves(old, false) // nobody knew of it
	r.serves(bob, true)
	r.serves(node, true) // a node of that name is somebody else
	r.serves(r.issue(Identity{Role: RoleReader, Name: "ann"}, true), true)
	for serial, want := range map[string]error{Serial(ann.Certificate()): ErrNothingToRevoke, "12": ErrNothingToRevoke, Serial(node.Certificate()): ErrNotAPersons} {
		if _, err := r.RevokeSerial(Revocation{Serial: serial}); !errors.Is(err, want) {
			t.Errorf("revoke %s: %v, want %v", serial, err, want)
		}
	}
	if list := r.List(); len(list) != 5 || list[0].Issued.Name == "" {
		t.Errorf("list: %+v", list)
	}
}

func TestWhatExpiredIsDroppedAndWhatWasRevokedIsNot(t *testing.T) {
	r := newRegistering(t)
	ann := r.issue(Identity{Role: RoleOperator, Name: "ann"}, true)
	if _, err := r.RevokeSerial(Revocation{Serial: Serial(ann.Certificate()), At: r.now}); err != nil {
		t.Fatal(err)
	}
	before := r.now
	r.now = r.now.Add(Validity + time.Hour) // or the clock is wrong
	r.open()
	if len(r.List()) != 0 {
		t.Errorf("left: %v", r.List())
	}
	r.now = before
	r.serves(ann, false)
}

func TestDamagedRegister(t *testing.T) {
	r := newRegistering(t)
	ann := r.issue(Identity{Role: RoleOperator, Name: "ann"}, true)
	text, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path, append(text, `{"revoked":{"ser`...), 0o600); err != nil {
		t.Fatal(err)
	}
	r.serves(ann, true)
	if _, err := r.RevokeSerial(Revocation{Serial: Serial(ann.Certificate()), At: r.now}); err != nil {
		t.Fatal(err)
	}
	r.serves(ann, false)
	if err := os.WriteFile(r.path, append([]byte("{\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegister(r.path, r.now); err == nil || !strings.Contains(err.Error(), r.path) {
		t.Errorf("got %v", err)
	}
}
