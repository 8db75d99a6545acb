package bolt

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapAhead has the kernel map memory that stands for a file at once, where it would do so page by page as they are read. Kernels before 5.14 cannot.
func mapAhead(begin, size uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, size, unix.MADV_POPULATE_READ)
}

// checkFilesystem refuses file systems that may lose what they acknowledged, or lock for one machine only.
func checkFilesystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	var name string
	switch uint32(s.Type) { //nolint:gosec // magic numbers have 32 bits, whatever the field's type
	case unix.NFS_SUPER_MAGIC:
		name = "NFS"
	case unix.FUSE_SUPER_MAGIC:
		name = "FUSE"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		name = "SMB"
	default:
		return nil
	}
	return fmt.Errorf("%s is on %s, which may lose acknowledged writes: use a directory on a local disk", dir, name)
}
