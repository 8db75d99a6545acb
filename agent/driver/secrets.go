package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SecretsDirEnv is the variable that tells a task where its secrets are.
const SecretsDirEnv = "SETPOINT_SECRETS_DIR"

// Secrets are files in memory that a task may read. The agent wrote them and removes them; a driver gives them to the task. The zero value: none.
type Secrets struct {
	// Dir is the directory that they are in, and nothing else.
	Dir string `json:"dir,omitempty"`
	// Files are what is in it.
	Files []SecretFile `json:"files,omitempty"`
}

// SecretFile is one file, by name only.
type SecretFile struct {
	Name string `json:"name"`
	// Mode is the file's permissions.
	Mode uint32 `json:"mode"`
	// Owner is whose the file is, as UID or UID:GID; empty: the task's user.
	Owner string `json:"owner,omitempty"`
}

// Give makes the files those of the task's user, or of who is named for one. It may be called again: what is in the directory only the agent changes, so that no link can stand in
// the place of a file.
func (s *Secrets) Give(uid, gid int) error {
	if s.Dir == "" {
		return nil
	}
	for _, f := range s.Files {
		fileUID, fileGID := uid, gid
		if f.Owner != "" {
			var err error
			if fileUID, fileGID, err = ParseOwner(f.Owner, gid); err != nil {
				return fmt.Errorf("give secret %s: %w", f.Name, err)
			}
		}
		path := filepath.Join(s.Dir, f.Name)
		if err := errors.Join(os.Chown(path, fileUID, fileGID), os.Chmod(path, os.FileMode(f.Mode))); err != nil {
			return fmt.Errorf("give secret %s to user %d: %w", f.Name, fileUID, err)
		}
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil { // it has a name that nobody can guess, where nobody can look for it
		return fmt.Errorf("give secrets to user %d: %w", uid, err)
	}
	return nil
}

// ParseOwner reads UID or UID:GID; without one the group is the one that is given. The error says that the text is no such thing.
func ParseOwner(text string, gid int) (int, int, error) {
	user, group, hasGroup := strings.Cut(text, ":")
	uid, err := strconv.Atoi(user)
	if err == nil && hasGroup {
		gid, err = strconv.Atoi(group)
	}
	if err != nil || uid < 0 || gid < 0 {
		return 0, 0, fmt.Errorf("owner %q is not UID or UID:GID", text)
	}
	return uid, gid, nil
}
