// Package installed finds the small programs that are installed beside an executable.
package installed

import (
	"os"
	"path/filepath"
)

// Programs that are small because they hold one thing. An executable that misses one does its work itself, and takes several times the memory.
const (
	Shim   = "setpoint-shim"   // stands beside a process task
	Plugin = "setpoint-plugin" // is one of the plugins that come along
)

// Beside returns the path of a program that lies beside an executable and can be executed; "" if there is none.
func Beside(exe, program string) string {
	path := filepath.Join(filepath.Dir(exe), program)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path
	}
	return ""
}
