package bolt

// Quick makes commits cheap for tests that do not cut the power: no fdatasync.
func (o Options) Quick() Options {
	o.noSync = true
	return o
}

// Folding sets how much may be in the log alone before it is folded.
func (o Options) Folding(keys, bytes, batches int) Options {
	o.fold = foldLimits{keys: keys, bytes: bytes, batches: batches}
	return o
}
