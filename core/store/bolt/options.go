package bolt

import "github.com/setpointd/setpoint/core/store"

// Options of Open. The zero value is right for a server.
type Options struct {
	// Retention says how much of the log is kept for readers once it is folded.
	Retention store.Retention

	// Initial is the head that a file gets when it is created: revision 0 for a new cluster, more for one that is restored. An empty
	// ClusterID becomes a random one; Oldest is ignored. A file that exists keeps its own head.
	Initial store.Head

	// MaxSize is the size in bytes past which the file does not grow: commits then fail with store.ErrNoSpace. 0 means no limit. bbolt
	// grows a file in steps of up to 16 MiB, so leave at least that above what is needed.
	MaxSize int

	// AnyFilesystem allows network and user space file systems, which may not keep what they acknowledged.
	AnyFilesystem bool

	// Progress, if set, is told how many of the file's bytes have been read while it is opened: now and then, and once at the end. It is
	// called by the goroutine that called Open.
	Progress func(done, total int64)

	// noSync leaves out fdatasync, for tests that do not cut the power.
	noSync bool
	// fold replaces the thresholds of folding, for tests that want to see it happen.
	fold foldLimits
}
