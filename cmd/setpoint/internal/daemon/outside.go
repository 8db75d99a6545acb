package daemon

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/pki"
)

// outside are files with the cluster's authority that somebody else puts there.
type outside struct {
	files config.Authority

	read   [2]time.Time // when the files changed that were read last
	latest *pki.Outside // what they had
}

// named reports whether there are such files.
func (o *outside) named() bool { return o.files.Certificate != "" }

// load reads the files.
func (o *outside) load(clusterID string) error {
	var read [2]time.Time
	for i, path := range []string{o.files.Certificate, o.files.Key} {
		if info, err := os.Stat(path); err == nil {
			read[i] = info.ModTime()
		}
	}
	if o.latest != nil && read == o.read {
		return nil
	}
	found, err := pki.LoadOutside(o.files.Certificate, o.files.Key, clusterID, time.Now())
	if err != nil {
		return err
	}
	o.latest, o.read = found, read
	return nil
}

// begin has the authority that the files have be the one in a directory. While one retires there, the files wait.
func (o *outside) begin(dir, clusterID string) error {
	if err := o.load(clusterID); err != nil {
		return err
	}
	if _, err := pki.Adopt(dir, o.latest); err != nil && !errors.Is(err, pki.ErrRotating) {
		return err
	}
	return nil
}

// look does so while the server runs, and returns the authorities that there are then.
func (o *outside) look(dir string, now pki.Authorities) (pki.Authorities, error) {
	if err := o.load(now.Current.ClusterID()); err != nil {
		return now, fmt.Errorf("%w; the one before is in use", err)
	}
	if o.latest.Fingerprint() == now.Current.Fingerprint() {
		return now, nil
	}
	next, err := pki.Adopt(dir, o.latest)
	if errors.Is(err, pki.ErrRotating) {
		return now, fmt.Errorf("%s has an authority that waits: %w, and `setpoint ca finish` ends that", o.files.Certificate, err)
	}
	return next, err
}

// chainOf returns what leads from an authority to a root outside, if it is the one in the files.
func (o *outside) chainOf(a *pki.Authority) []*x509.Certificate {
	if o.latest == nil || o.latest.Fingerprint() != a.Fingerprint() {
		return nil
	}
	return o.latest.Chain
}
