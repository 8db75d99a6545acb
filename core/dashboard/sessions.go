package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// How long what lets somebody in serves, and how much of it there is.
const (
	inviteLifetime  = 2 * time.Minute
	sessionLifetime = 12 * time.Hour
	idleLifetime    = time.Hour // without a request, and without a page that is open
	sweepEvery      = 10 * time.Second
	maxInvites      = 1000
	maxSessions     = 1000
	maxStreams      = 16 // pages of one session that are kept up to date at a time
)

// secret is what somebody shows to be let in. Only its hash is kept.
type secret [sha256.Size]byte

func newSecret() (text string, hash secret) {
	text = rand.Text() // 26 letters and digits, at least 128 bits
	return text, hashOf(text)
}

func hashOf(text string) secret { return sha256.Sum256([]byte(text)) }

// invitation lets somebody log in, once.
type invitation struct {
	who     pki.Credential
	expires time.Time
}

// session is somebody's being logged in. Its fields do not change but for what sessions guards.
type session struct {
	id    pki.Identity
	who   pki.Credential // by which he was known who began it; it ends with that
	api   apiv1connect.ApiServiceClient
	form  string    // that the forms of its pages carry: other sites do not know it
	began time.Time //
	ctx   context.Context
	end   context.CancelFunc // ends what is sent to its browsers

	used    time.Time // guarded by sessions.mu
	streams int       // guarded by sessions.mu
	note    string    // guarded by sessions.mu; what came of the latest command, to be shown once
}

// operator reports whether who is logged in may change anything.
func (s *session) operator() bool { return s.id.Role.Allows(pki.RoleOperator) }

// sessions keeps who is logged in, and who may.
type sessions struct {
	opts Options

	mu      sync.Mutex // guards what follows
	invites map[secret]invitation
	live    map[secret]*session
}

func newSessions(opts Options) *sessions {
	return &sessions{opts: opts, invites: map[secret]invitation{}, live: map[secret]*session{}}
}

// invite makes a code with which somebody logs in.
func (s *sessions) invite(who pki.Credential) (code string, expires time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	if len(s.invites) >= maxInvites {
		return "", time.Time{}, &engine.OpError{
			Kind: engine.Refused, Message: fmt.Sprintf("there are %d links to the dashboard that nobody has used", len(s.invites)), Hint: fmt.Sprintf("each serves for %s only: try again then", inviteLifetime),
		}
	}
	code, hash := newSecret()
	expires = s.opts.Now().Add(inviteLifetime)
	s.invites[hash] = invitation{who, expires}
	return code, expires, nil
}

// begin uses a code up and returns what the browser is to show from now on; false if the code does not serve.
func (s *sessions) begin(code string) (cookie string, began *session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	hash := hashOf(code)
	invited, ok := s.invites[hash]
	if !ok || len(s.live) >= maxSessions || !s.serves(invited.who) {
		return "", nil, false
	}
	delete(s.invites, hash)
	cookie, key := newSecret()
	now := s.opts.Now()
	began = &session{id: invited.who.Identity, who: invited.who, api: s.opts.Client(invited.who), form: rand.Text(), began: now, used: now}
	began.ctx, began.end = context.WithCancel(context.Background())
	s.live[key] = began
	return cookie, began, true
}

// of returns the session of a cookie, or nil.
func (s *sessions) of(cookie string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := hashOf(cookie)
	found := s.live[key]
	if found == nil {
		return nil
	}
	if s.over(found) {
		s.drop(key)
		return nil
	}
	found.used = s.opts.Now()
	return found
}

// close ends the session of a cookie.
func (s *sessions) close(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(hashOf(cookie))
}

// over reports whether a session's time is.
func (s *sessions) over(x *session) bool {
	now := s.opts.Now()
	return now.Sub(x.began) >= sessionLifetime || x.streams == 0 && now.Sub(x.used) >= idleLifetime || !s.serves(x.who)
}

// serves reports whether a credential does now.
func (s *sessions) serves(who pki.Credential) bool {
	return s.opts.Now().Before(who.Expires) && s.opts.Serves(who)
}

func (s *sessions) drop(key secret) {
	if x := s.live[key]; x != nil {
		x.end()
		delete(s.live, key)
	}
}

func (s *sessions) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
}

func (s *sessions) sweepLocked() {
	now := s.opts.Now()
	for hash, x := range s.invites {
		if now.After(x.expires) || !s.serves(x.who) {
			delete(s.invites, hash)
		}
	}
	for key, x := range s.live {
		if s.over(x) {
			s.drop(key)
		}
	}
}

func (s *sessions) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.live {
		s.drop(key)
	}
}

// open counts a page that is kept up to date; false if the session has too many.
func (s *sessions) open(x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.streams >= maxStreams {
		return false
	}
	x.streams++
	return true
}

func (s *sessions) shut(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.streams--
	x.used = s.opts.Now()
}

// tell keeps what came of a command, for the next page to show.
func (s *sessions) tell(x *session, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.note = note
}

// told returns it, once.
func (s *sessions) told(x *session) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := x.note
	x.note = ""
	return note
}
