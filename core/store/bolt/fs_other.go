//go:build !linux

package bolt

// checkFilesystem accepts everything: other kernels do not tell file systems apart in a common way.
func checkFilesystem(string) error { return nil }

// mapAhead does nothing here.
func mapAhead(_, _ uintptr) {}
