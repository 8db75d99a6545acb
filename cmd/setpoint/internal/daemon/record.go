package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
)

// recordLimit is how large a file of recorded inputs becomes.
const recordLimit = 256 << 20

// record begins to write down what the engine is given, if that is configured. An earlier file is kept beside the new one.
func (s *Server) record() error {
	path := s.opts.Config.RecordInputs
	if path == "" {
		return nil
	}
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record inputs: keep the earlier file: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record inputs: %w", err)
	}
	s.inputs = &recordFile{file: file, log: s.opts.Log.Named("record")}
	s.engine.Record(engine.NewRecorder(s.inputs, recordLimit), s.opts.Version)
	s.opts.Log.Info("inputs are recorded", "path", path, "limit_bytes", recordLimit)
	return nil
}

// recordFile is the file of recorded inputs. A server goes on when it cannot be written.
type recordFile struct {
	file *os.File
	log  hclog.Logger
}

// Write writes to the file. The recorder stops at the first error.
func (r *recordFile) Write(p []byte) (int, error) {
	n, err := r.file.Write(p)
	if err != nil {
		r.log.Error("inputs are not recorded any more", "error", err)
	}
	return n, err
}
