package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
)

// An agent whose authority is being replaced hears so with each answer to its heartbeats, until it comes with a certificate of the new one; once the old one is
// retired its session ends.
func TestAgentsOfAnOldAuthorityAreToldToRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(readyNode("n1"))
		d, err := New(Options{
			Engine: e, Tokens: fakeTokens{}, Signer: fakeSigner{fingerprint: pki.Fingerprint{2}}, Log: hclog.NewNullLogger(), Authority: nobodysAuthority, Issued: pki.Authorities{}.Issued,
			Identity: func(context.Context) (pki.Identity, error) { return pki.Identity{}, pki.ErrNoCertificate },
		})
		if err != nil {
			t.Fatal(err)
		}
		e.commit = d.Committed
		renews := func(of pki.Fingerprint) (*agent, bool) {
			a := dialWith(t, d, "n1", of, hello())
			a.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Heartbeat{Heartbeat: &agentv1.Heartbeat{}}})
			for {
				if m := a.next().GetHeartbeat(); m != nil {
					return a, m.GetRenew()
				}
			}
		}
		if _, renew := renews(pki.Fingerprint{2}); renew {
			t.Error("an agent of the authority that issues is told to renew")
		}
		d.Retire()
		if got := d.Authorities(); len(got) != 1 || got["n1"] != (pki.Fingerprint{2}) {
			t.Errorf("sessions %v", got)
		}
		old, renew := renews(pki.Fingerprint{1})
		if !renew {
			t.Error("an agent of the old authority is not told to renew")
		}
		d.Retire()
		<-old.gone
		if !errors.Is(old.result, errRetired) {
			t.Errorf("its session ends with %v", old.result)
		}
	})
}
