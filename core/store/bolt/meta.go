package bolt

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/store"
)

// Format is the version of the file format that this package writes, and the highest that it reads.
const Format = 2

// minReader is the lowest format that a program must know to read what this one writes.
const minReader = 2

// The buckets.
var (
	bucketMeta = []byte("meta")
	bucketLog  = []byte("log")
	bucketObj  = []byte("obj")
)

// Keys of the meta bucket.
const (
	metaFormat  = "format"  // writer's format, lowest format that a reader must know: 4 bytes each, little endian
	metaCluster = "cluster" // cluster id, given when the file was created
	metaHead    = "head"    // revision, engine time, wall time of the last batch
	metaFolded  = "folded"  // every batch up to this revision is contained in obj
	metaObjects = "objects" // number of records in obj, and the sum of their checksums
)

// meta is the content of the meta bucket but for the cluster, which never changes.
type meta struct {
	format  uint32 // of the program that wrote the file
	head    store.Head
	folded  uint64
	objects tally
}

// tally counts records and adds their checksums, so that a lost, doubled or outdated record shows.
type tally struct {
	count uint64
	sum   uint64
}

func (t *tally) add(packed []byte) {
	t.count++
	t.sum += uint64(binary.LittleEndian.Uint32(packed))
}

func (t *tally) remove(packed []byte) {
	t.count--
	t.sum -= uint64(binary.LittleEndian.Uint32(packed))
}

// putMeta writes one sealed value.
func putMeta(tx *bbolt.Tx, key string, payload []byte) error {
	packed := append(make([]byte, crcSize), payload...)
	if err := tx.Bucket(bucketMeta).Put([]byte(key), seal([]byte(key), packed)); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// getMeta reads one sealed value.
func getMeta(file string, tx *bbolt.Tx, key string) ([]byte, error) {
	packed := tx.Bucket(bucketMeta).Get([]byte(key))
	if packed == nil {
		return nil, &store.CorruptError{File: file, Part: "meta", Key: key, Reason: "missing"}
	}
	payload, err := unseal([]byte(key), packed)
	if err != nil {
		return nil, &store.CorruptError{File: file, Part: "meta", Key: key, Reason: err.Error()}
	}
	return payload, nil
}

func encodeHead(revision uint64, engine time.Duration, wall time.Time) []byte {
	out := binary.AppendUvarint(nil, revision)
	out = binary.AppendVarint(out, int64(engine))
	out = binary.AppendVarint(out, wall.Unix())
	return binary.AppendUvarint(out, uint64(wall.Nanosecond()))
}

// putHead writes the head after a batch.
func putHead(tx *bbolt.Tx, revision uint64, engine time.Duration, wall time.Time) error {
	return putMeta(tx, metaHead, encodeHead(revision, engine, wall))
}

// putFolded writes how far folding has come, and the tally of obj.
func putFolded(tx *bbolt.Tx, folded uint64, objects tally) error {
	if err := putMeta(tx, metaFolded, binary.AppendUvarint(nil, folded)); err != nil {
		return err
	}
	return putMeta(tx, metaObjects, binary.AppendUvarint(binary.AppendUvarint(nil, objects.count), objects.sum))
}

// putFormat says that the file is, from now on, one of this program's format.
func putFormat(tx *bbolt.Tx) error {
	return putMeta(tx, metaFormat, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, Format), minReader))
}

// create fills a new file.
func create(tx *bbolt.Tx, initial store.Head) error {
	for _, name := range [][]byte{bucketMeta, bucketLog, bucketObj} {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	if err := putFormat(tx); err != nil {
		return err
	}
	if err := putMeta(tx, metaCluster, []byte(initial.ClusterID)); err != nil {
		return err
	}
	if err := putHead(tx, initial.Revision, initial.Engine, initial.Wall); err != nil {
		return err
	}
	return putFolded(tx, initial.Revision, tally{})
}

// checkFormat looks at the format before anything else, since in a newer one everything else may be different, and returns that of the writer.
func checkFormat(file string, tx *bbolt.Tx) (writer uint32, err error) {
	const foreign = "there is no bucket %q: not a file of this program"
	if tx.Bucket(bucketMeta) == nil {
		return 0, &store.CorruptError{File: file, Part: "meta", Reason: fmt.Sprintf(foreign, bucketMeta)}
	}
	format, err := getMeta(file, tx, metaFormat)
	if err != nil {
		return 0, err
	}
	if len(format) < 8 {
		return 0, &store.CorruptError{File: file, Part: "meta", Key: metaFormat, Reason: errShort.Error()}
	}
	writer = binary.LittleEndian.Uint32(format)
	if least := binary.LittleEndian.Uint32(format[4:]); least > Format {
		return 0, &store.FormatError{File: file, Format: writer, MinReader: least, Known: Format}
	}
	for _, name := range [][]byte{bucketLog, bucketObj} {
		if tx.Bucket(name) == nil {
			return 0, &store.CorruptError{File: file, Part: "meta", Reason: fmt.Sprintf(foreign, name)}
		}
	}
	return writer, nil
}

// readMeta reads the meta bucket and refuses a file of another kind or of a newer format.
func readMeta(file string, tx *bbolt.Tx) (meta, error) {
	writer, err := checkFormat(file, tx)
	if err != nil {
		return meta{}, err
	}
	m := meta{format: writer}
	cluster, err := getMeta(file, tx, metaCluster)
	if err != nil {
		return meta{}, err
	}
	m.head.ClusterID = string(cluster)
	for _, field := range []struct {
		key  string
		read func(*decoder)
	}{
		{metaHead, func(d *decoder) {
			m.head.Revision, m.head.Engine, m.head.Wall = d.uvarint(), time.Duration(d.varint()), d.time()
		}},
		{metaFolded, func(d *decoder) { m.folded = d.uvarint() }},
		{metaObjects, func(d *decoder) { m.objects = tally{count: d.uvarint(), sum: d.uvarint()} }},
	} {
		payload, err := getMeta(file, tx, field.key)
		if err != nil {
			return meta{}, err
		}
		d := &decoder{rest: payload}
		field.read(d)
		if d.err != nil {
			return meta{}, &store.CorruptError{File: file, Part: "meta", Key: field.key, Reason: d.err.Error()}
		}
	}
	if m.folded > m.head.Revision {
		return meta{}, &store.CorruptError{File: file, Part: "meta", Key: metaFolded, Reason: fmt.Sprintf("revision %d is after the head, %d", m.folded, m.head.Revision)}
	}
	return m, nil
}
