package bolt_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	ext4Shutdown   = 0x8004587d // FS_IOC_SHUTDOWN
	shutdownNoSync = 2          // neither data nor journal are written any more, as when the power goes
)

// diskImage is an ext4 file system in a file, which can be cut off.
type diskImage struct{ image, dir string }

func newDiskImage(t *testing.T) *diskImage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	d := &diskImage{image: filepath.Join(t.TempDir(), "disk"), dir: t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := d.mount(t); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return d
}

func (d *diskImage) mount(t *testing.T) ([]byte, error) {
	t.Helper()
	return exec.CommandContext(t.Context(), "mount", "-o", "loop", d.image, d.dir).CombinedOutput()
}

// cut stops all writing to the disk at once; what was not synced before is gone.
func (d *diskImage) cut(t *testing.T) {
	t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // only read
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, shutdownNoSync); err != nil {
		t.Skipf("cut the disk off: %v", err)
	}
}

// again is the next start of the machine.
func (d *diskImage) again(t *testing.T) {
	t.Helper()
	if err := unix.Unmount(d.dir, 0); err != nil {
		t.Fatalf("unmount: %v", err)
	}
	if out, err := d.mount(t); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

// A batch is acknowledged only when it survives the loss of everything that is in the machine's memory.
func TestPowerCut(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	d := newDiskImage(t)
	path := filepath.Join(d.dir, "state.db")
	random := rand.New(rand.NewPCG(9, 9))
	w := witness{held: map[string]string{}}
	for range rounds {
		acked := commitSome(t, path, 1+random.IntN(60), func(c *child) {
			d.cut(t) // the child's next commit fails, and ends it
		})
		d.again(t)
		w.check(t, path, acked)
	}
	t.Logf("%d power cuts, %d commits, none lost", rounds, w.at)
}
