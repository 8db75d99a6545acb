package docker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The labels of a container.
const (
	labelPrefix = "setpoint."
	labelTask   = labelPrefix + "task"
	labelOwner  = labelPrefix + "owner"
)

const (
	ownerFile = "owner"
	stopsDir  = "stops"
	// maxReadable is how much of a task's id stands in its container's name.
	maxReadable = 60
)

// readOwner returns the directory's mark, and makes it at first.
func readOwner(dir string) (string, error) {
	path := filepath.Join(dir, ownerFile)
	text, err := os.ReadFile(path)
	if err == nil {
		if owner := strings.TrimSpace(string(text)); owner != "" {
			return owner, nil
		}
		return "", fmt.Errorf("%s is empty: the containers of this agent cannot be told from others; write into it the label %s of one of them, or remove the file if there is none", path, labelOwner)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	owner := strings.ToLower(rand.Text())
	return owner, writeFile(path, []byte(owner+"\n"))
}

// writeFile replaces a file. Readers, also those after a power failure, see the old content or the new one.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	in, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(in.Sync(), in.Close())
}

// container returns the name of the task's container. What of the id a name cannot have becomes a hyphen; the hash tells apart what then is alike.
func (d *Driver) container(taskID string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, taskID)
	sum := sha256.Sum256([]byte(d.owner + "\x00" + taskID))
	return "setpoint-" + readable[:min(len(readable), maxReadable)] + "-" + hex.EncodeToString(sum[:10])
}

// handleData is what a driver.Handle has beside the task's id. It is for people: the driver itself finds containers by their names.
func handleData(containerID string) json.RawMessage {
	data, _ := json.Marshal(struct { // a struct of one string
		Container string `json:"container"`
	}{containerID})
	return data
}
