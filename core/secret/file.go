package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// suffix ends the name of a secret's file.
const suffix = ".json"

// record is the content of a secret's file. One without versions says that the secret was removed, and which numbers were used.
type record struct {
	Name       string          `json:"name"`
	Last       uint64          `json:"last"`                 // version that was given last
	Configured bool            `json:"configured,omitempty"` // the server's configuration has it, and nobody else writes it
	Versions   []sealedVersion `json:"versions"`             // oldest first
}

// sealedVersion is a version of a secret, and its value as it lies on the disk.
type sealedVersion struct {
	Version
	Key    string `json:"key"` // id of the one that sealed it
	Sealed []byte `json:"sealed"`
}

// loadRecords reads all secrets of a directory.
func loadRecords(dir string) (map[string]*record, error) {
	out := make(map[string]*record)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the secrets: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || cluster.ValidateSecretName(name) != nil {
			continue // left of a write that a crash ended
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the secrets: %w", err)
		}
		r := new(record)
		if json.Unmarshal(text, r) != nil || r.Name != name {
			return nil, fmt.Errorf("read the secrets: %s is damaged; restore it from a backup, or remove it and create the secret anew", filepath.Join(dir, e.Name()))
		}
		out[name] = r
	}
	return out, nil
}

func (r *record) save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = replace(filepath.Join(dir, r.Name+suffix), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write secret %s: %w", r.Name, err)
	}
	return nil
}

// replace writes a file that only its owner can read, in one step: a crash leaves the old content or the new one.
func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil //nolint:nilerr // it is in its place; only that it stays there after a loss of power is not certain
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// wall returns the time as it is stored.
func wall() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
