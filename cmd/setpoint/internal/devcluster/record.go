package devcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
)

// recordFile is the file in an agent's directory that says which process the agent is.
const recordFile = "agent.json"

// Record says which process an agent is. A process is the same only if all of it is: numbers are given again.
type Record struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"` // ticks from boot to the process's start
	Boot   string `json:"boot"`
	Server string `json:"server"` // HOST:PORT that it was started with
}

// Self returns the record of this process.
func Self(server string) (Record, error) {
	boot, err := bootID()
	if err != nil {
		return Record{}, err
	}
	start, err := startOf(os.Getpid())
	if err != nil {
		return Record{}, err
	}
	return Record{PID: os.Getpid(), Start: start, Boot: boot, Server: server}, nil
}

// Write says in an agent's directory who the agent is.
func (r Record) Write(dir string) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = datadir.WriteFile(filepath.Join(dir, recordFile), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write who the agent is: %w", err)
	}
	return nil
}

// Read returns who the agent of a directory is or was. Without a file the error is fs.ErrNotExist.
func Read(dir string) (Record, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("read %s: %w", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// Find returns the process if it still runs, or nil. The handle is taken before the process is compared, so that it is never another's.
func (r Record) Find() (*os.Process, error) {
	boot, err := bootID()
	if err != nil || boot != r.Boot || r.PID <= 0 {
		return nil, err
	}
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return nil, err
	}
	start, err := startOf(r.PID)
	if err == nil && start == r.Start {
		return p, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, p.Release())
	}
	return nil, p.Release()
}

// Alive reports whether the process still runs.
func (r Record) Alive() bool {
	p, err := r.Find()
	return err == nil && p != nil && p.Release() == nil
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(text)), err
}

// startOf returns when a process started, in ticks since boot. One that has ended, or ended and was not waited for, does not exist.
func startOf(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in brackets, which may have anything in it; the fields are counted from the last bracket.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const state, start = 0, 19
	if len(fields) <= start {
		return 0, fmt.Errorf("read %s: it has only %d fields", path, len(fields))
	}
	if s := fields[state][0]; s == 'Z' || s == 'X' {
		return 0, fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	return strconv.ParseUint(string(fields[start]), 10, 64)
}
