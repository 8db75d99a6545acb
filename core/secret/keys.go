package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// keyBytes is the size of a key of AES-256, and of the key of digests.
const keyBytes = 32

// key seals and opens values.
type key struct {
	ID      string    `json:"id"`
	Key     []byte    `json:"key"`
	Created time.Time `json:"created"`
}

// keys is the content of the key file.
type keys struct {
	Digest []byte `json:"digest"` // of the digests that people are shown. It stays, so that what they wrote down still compares
	Keys   []key  `json:"keys"`   // the first one seals, all of them open; there is a second one only while a change of keys goes on
}

func newKey(now time.Time) key {
	return key{ID: hex.EncodeToString(random(4)), Key: random(keyBytes), Created: now}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

// loadKeys reads the key file. Without one the error is fs.ErrNotExist.
func loadKeys(path string) (keys, error) {
	var k keys
	info, err := os.Stat(path)
	if err != nil {
		return k, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return k, fmt.Errorf("read the key of the secrets: %s may be read by others (mode %04o): chmod 0600, and change the key with `setpoint secret rekey`", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return k, fmt.Errorf("read the key of the secrets: %w", err)
	}
	if json.Unmarshal(text, &k) != nil || len(k.Keys) == 0 || len(k.Digest) != keyBytes {
		return k, fmt.Errorf("read the key of the secrets: %s is damaged; restore it from where its copy is kept", path)
	}
	for _, key := range k.Keys {
		if len(key.Key) != keyBytes {
			return k, fmt.Errorf("read the key of the secrets: %s is damaged: key %s has %d bytes, not %d", path, key.ID, len(key.Key), keyBytes)
		}
	}
	return k, nil
}

func (k keys) save(path string) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = replace(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the key of the secrets: %w", err)
	}
	return nil
}

// loadOrMakeKeys returns the keys of a file, or new ones if there is none and nothing was sealed yet.
func loadOrMakeKeys(path string, sealed bool) (keys, error) {
	k, err := loadKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if sealed {
		return k, fmt.Errorf("read the key of the secrets: %s is gone, and what it sealed is there; restore it from where its copy is kept, or remove the directory of the secrets "+
			"and create them anew", path)
	}
	k = keys{Digest: random(keyBytes), Keys: []key{newKey(time.Now().UTC())}}
	return k, k.save(path)
}

// digest returns what people are shown of a value. Equal values of one secret have equal digests, and nobody without the key can try out values.
func (k keys) digest(name string, v Value) string {
	mac := hmac.New(sha256.New, k.Digest)
	mac.Write([]byte(name))
	mac.Write([]byte{0})
	mac.Write(v.bytes)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// seal encrypts a value. What it belongs to is authenticated with it: sealed bytes serve in no other place.
func (k keys) seal(place string, v Value) (id string, sealed []byte, err error) {
	box, err := k.Keys[0].box()
	if err != nil {
		return "", nil, err
	}
	nonce := random(box.NonceSize())
	return k.Keys[0].ID, box.Seal(nonce, nonce, v.bytes, []byte(place)), nil
}

// open decrypts what seal made with the key of that id.
func (k keys) open(place, id string, sealed []byte) (Value, error) {
	for _, key := range k.Keys {
		if key.ID != id {
			continue
		}
		box, err := key.box()
		if err != nil {
			return Value{}, err
		}
		if len(sealed) < box.NonceSize() {
			return Value{}, errors.New("what was sealed is cut short")
		}
		bytes, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], []byte(place))
		if err != nil {
			return Value{}, errors.New("what was sealed was changed, or is of another place")
		}
		return Value{bytes}, nil
	}
	return Value{}, fmt.Errorf("it was sealed with the key %s, which is not there", id)
}

func (k *key) box() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
