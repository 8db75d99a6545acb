package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Role says what the holder of a certificate may do.
type Role string

// The roles. Admin includes operator, and operator includes reader. A node's and a server's role include nothing else.
const (
	RoleAdmin    Role = "admin"
	RoleOperator Role = "operator"
	RoleReader   Role = "reader"
	RoleNode     Role = "node"
	RoleServer   Role = "server"
)

// scheme of the URI that carries an identity.
const scheme = "setpoint"

// includes maps a role to all that it may stand in for.
var includes = map[Role][]Role{
	RoleAdmin:    {RoleAdmin, RoleOperator, RoleReader},
	RoleOperator: {RoleOperator, RoleReader},
	RoleReader:   {RoleReader},
	RoleNode:     {RoleNode},
	RoleServer:   {RoleServer},
}

// Lengths stand beside the patterns: a pattern that counts is compiled to a copy of what it counts for each, which every process would keep.
var (
	clusterPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	namePattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]*$`)
)

func validCluster(id string) bool { return len(id) <= 63 && clusterPattern.MatchString(id) }

func validName(name string) bool { return len(name) <= 128 && namePattern.MatchString(name) }

// ErrNoCertificate is returned for a connection whose client showed no verified certificate.
var ErrNoCertificate = errors.New("no verified client certificate")

// ParseRole returns the role of that name.
func ParseRole(name string) (Role, error) {
	if _, known := includes[Role(name)]; !known {
		return "", fmt.Errorf("role %q is not one of admin, operator, reader, node, server", name)
	}
	return Role(name), nil
}

// Allows reports whether a holder of r may do what need is asked for. An unknown role allows nothing.
func (r Role) Allows(need Role) bool {
	return slices.Contains(includes[r], need)
}

// Identity is what a certificate says about its holder.
type Identity struct {
	ClusterID string // lower-case letters, digits and dashes, at most 63
	Role      Role
	Name      string // of the person, server or node
	NodeID    string // set for RoleNode and for no other
}

// String returns the identity's URI, which is also how it stands in the certificate.
func (id Identity) String() string {
	return id.uri().String()
}

// Require returns nil if the identity may do what need is asked for, and a *RoleError otherwise.
func (id Identity) Require(need Role) error {
	if id.Role.Allows(need) {
		return nil
	}
	return &RoleError{Have: id, Need: need}
}

// RoleError says that a caller's role does not include the one that a call needs.
type RoleError struct {
	Have Identity
	Need Role
}

func (e *RoleError) Error() string {
	return fmt.Sprintf("%s has the role %s; this needs %s", e.Have.Name, e.Have.Role, e.Need)
}

// Validate returns all that is wrong with the identity, joined, or nil.
func (id Identity) Validate() error {
	var errs []error
	if !validCluster(id.ClusterID) {
		errs = append(errs, fmt.Errorf("cluster id %q is not 1 to 63 lower-case letters, digits and inner dashes", id.ClusterID))
	}
	if _, err := ParseRole(string(id.Role)); err != nil {
		errs = append(errs, err)
	}
	if !validName(id.Name) {
		errs = append(errs, fmt.Errorf("name %q is not 1 to 128 letters, digits and . _ @ -, beginning with a letter or digit", id.Name))
	}
	switch {
	case id.Role == RoleNode && !validName(id.NodeID):
		errs = append(errs, fmt.Errorf("node id %q is not 1 to 128 letters, digits and . _ @ -, beginning with a letter or digit", id.NodeID))
	case id.Role != RoleNode && id.NodeID != "":
		errs = append(errs, fmt.Errorf("a node id is given with the role %s", id.Role))
	}
	return errors.Join(errs...)
}

func (id Identity) uri() *url.URL {
	path := "/" + string(id.Role) + "/" + id.Name
	if id.NodeID != "" {
		path += "/" + id.NodeID
	}
	return &url.URL{Scheme: scheme, Host: id.ClusterID, Path: path}
}

// IdentityOf reads the identity from a certificate, which the caller has verified. A certificate without exactly one identity, such as
// one of another authority that is trusted by mistake, is an error.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		return Identity{}, fmt.Errorf("certificate %q carries %d %s:// identities, not 1", cert.Subject.CommonName, len(found), scheme)
	}
	id, err := parseIdentity(found[0])
	if err != nil {
		return Identity{}, fmt.Errorf("certificate %q: identity %s: %w", cert.Subject.CommonName, found[0], err)
	}
	return id, nil
}

// Serial returns a certificate's serial number as people write it, in lower-case hexadecimal.
func Serial(cert *x509.Certificate) string { return fmt.Sprintf("%032x", cert.SerialNumber) }

// PeerIdentity returns who is at the other end of a connection. Without a verified certificate the error is ErrNoCertificate.
func PeerIdentity(conn *tls.ConnectionState) (Identity, error) {
	if conn == nil || len(conn.VerifiedChains) == 0 || len(conn.VerifiedChains[0]) == 0 {
		return Identity{}, ErrNoCertificate
	}
	return IdentityOf(conn.VerifiedChains[0][0])
}

func parseIdentity(u *url.URL) (Identity, error) {
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Identity{}, errors.New("not of the form CLUSTER/ROLE/NAME or CLUSTER/node/NAME/ID")
	}
	id := Identity{ClusterID: u.Host, Role: Role(parts[0]), Name: parts[1]}
	if len(parts) == 3 {
		id.NodeID = parts[2]
	}
	if err := id.Validate(); err != nil {
		return Identity{}, err
	}
	if id.String() != u.String() {
		return Identity{}, errors.New("has parts that an identity does not have")
	}
	return id, nil
}
