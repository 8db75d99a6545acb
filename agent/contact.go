package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/setpointd/setpoint/agent/machine"
)

// contactFile is the file, in the data directory, that says when a server was heard last. It is there for tasks that are to stop when none is, so that an agent
// that is restarted meanwhile does not begin to count anew. It is not synced: a machine that loses it has lost its tasks as well.
const contactFile = "contact.json"

// contact is when a server was heard last.
type contact struct {
	Boot  string        `json:"boot_id"` // of the machine's run in which that was
	Since time.Duration `json:"since_boot_ns"`
}

// lastContact returns when a server was heard last, by the clock of the machine's start; now if that is not known.
func (a *Agent) lastContact() time.Duration {
	now := machine.SinceBoot()
	var c contact
	text, err := os.ReadFile(filepath.Join(a.cfg.DataDir, contactFile))
	if err != nil || json.Unmarshal(text, &c) != nil || c.Boot != machine.BootID() || c.Boot == "" || c.Since > now {
		return now
	}
	return c.Since
}

// noteContact writes down when a server was heard last, if a task asks for it.
func (a *Agent) noteContact(at time.Duration) {
	if !a.set.Fenced() {
		return
	}
	path := filepath.Join(a.cfg.DataDir, contactFile)
	text, err := json.Marshal(contact{Boot: machine.BootID(), Since: at})
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		a.cfg.Log.Warn("last contact could not be written", "error", err)
	}
}
