package process

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// parseSignal reads a signal's name, with or without SIG; empty means TERM.
func parseSignal(name string) (syscall.Signal, error) {
	if name == "" {
		return unix.SIGTERM, nil
	}
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	sig := unix.SignalNum(full)
	if sig == 0 {
		return 0, fmt.Errorf("unknown signal %q", name)
	}
	return sig, nil
}

// signalName is a signal's name without SIG, or its number if it has none.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprintf("%d", int(sig))
}
