// Package bolt keeps the store in one bbolt file, held by one process.
//
// A commit appends one record to a log inside the file; when that transaction is on disk the batch is acknowledged. Keyed records are
// brought up to date later, a slice with each commit, coalesced and in the order of keys ("folding"): 1,000 random changes cost about 7 ms
// as one log record and 69 ms as 1,000 updates of the tree. Recovery reads the keyed records and lays what is not folded yet over them.
//
// # The file
//
// docs/STORE-FORMAT.md describes every byte. In short, three buckets:
//
//	meta  format, cluster, head, folded, objects, clean; each with a CRC32C
//	log   revision (8 bytes, big endian) → CRC32C and the packed batch
//	obj   key → CRC32C and value
//
// bbolt has no checksums on its pages, so everything is checked when the file is opened and loaded: the structure of the pages (before
// bbolt sees them, since it panics on some damage, in a goroutine of its own), the checksum of each record, the sequence of the log, and a
// count and sum over all keyed records, which a lost or an outdated page does not pass.
//
// # Running it
//
// The list of free pages is not written with each commit, which would cost more the longer it is, but when the file is closed; a file that
// was not closed is scanned once when it is opened. Free pages are used again; the file itself shrinks only by Compact.
//
// A commit that fails for lack of space changes nothing and may be tried again. After any other failure nobody can say what is on disk: the
// backend refuses everything with store.ErrOutcomeUnknown, and the process has to end and open the file again.
//
// Use a local disk that keeps what it acknowledged; network file systems are refused. Offline tools (Check, Compact, a copy) need the
// server to be stopped: the file is locked.
//
// Owner: one goroutine calls Load and Commit; the rest is safe beside it. Imports the standard library, core/store, bbolt and x/sys.
package bolt
