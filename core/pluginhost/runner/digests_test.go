package runner

import (
	"crypto/sha256"
	"errors"
	"os"
	"testing"
	"time"
)

// A hash is taken once of a file that has not changed for a while; one that is pinned is taken each time.
func TestDigestsAreRemembered(t *testing.T) {
	const path = "/bin/sh"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open := func(pin []byte, known *digests) (*executable, error) {
		exe, err := openExecutable(path, pin, known)
		if err == nil {
			t.Cleanup(func() { _ = exe.file.Close() })
		}
		return exe, err
	}
	known := &digests{}
	first, err := open(nil, known)
	if err != nil || first.digest != sha256.Sum256(content) {
		t.Fatalf("hash %x, %v", first.digest, err)
	}
	other := [digestSize]byte{1}
	known.known[first.stamp] = other
	if again, err := open(nil, known); err != nil || again.digest != other {
		t.Errorf("it is hashed again: %x, %v", again.digest, err)
	}
	if _, err := open(other[:], known); !errors.Is(err, ErrDigest) {
		t.Errorf("a pinned hash is believed unseen: %v", err)
	}
}

// What may still change without being told by its stamp is not remembered, and never more than a limited number.
func TestDigestsAreBounded(t *testing.T) {
	d := &digests{}
	fresh := stamp{inode: 1, ctimeSec: 1000}
	d.put(fresh, [digestSize]byte{1}, time.Unix(1001, 0))
	if _, ok := d.get(fresh); ok {
		t.Error("the hash of a file that has just changed is remembered")
	}
	for i := range 10 * maxDigests {
		d.put(stamp{inode: uint64(i)}, [digestSize]byte{1}, time.Unix(1000, 0))
	}
	if n := len(d.known); n == 0 || n > maxDigests {
		t.Errorf("%d hashes are remembered", n)
	}
}
