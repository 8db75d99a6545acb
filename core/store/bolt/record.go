package bolt

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

// castagnoli is the table of CRC32C, which processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What can be wrong with a record.
var (
	errShort    = errors.New("too short")
	errChecksum = errors.New("wrong checksum")
	errTrailing = errors.New("bytes left over")
)

const crcSize = 4

// seal writes the checksum of key and packed[crcSize:] into the first bytes of packed. The key takes part, with its length, so that a value
// that turns up under another key is found out.
func seal(key, packed []byte) []byte {
	binary.LittleEndian.PutUint32(packed, checksum(key, packed[crcSize:]))
	return packed
}

// unseal checks a sealed value and returns what is in it, as part of packed.
func unseal(key, packed []byte) ([]byte, error) {
	if len(packed) < crcSize {
		return nil, errShort
	}
	if binary.LittleEndian.Uint32(packed) != checksum(key, packed[crcSize:]) {
		return nil, errChecksum
	}
	return packed[crcSize:], nil
}

func checksum(key, value []byte) uint32 {
	var size [4]byte
	binary.LittleEndian.PutUint32(size[:], uint32(len(key)))
	c := crc32.Update(0, castagnoli, size[:])
	c = crc32.Update(c, castagnoli, key)
	return crc32.Update(c, castagnoli, value)
}

// encodeBatch packs a batch as a sealed log record. The returned records share the packed bytes, so they can be kept without the caller's.
func encodeBatch(b store.Batch) (packed []byte, records []store.Record) {
	packed = make([]byte, crcSize, crcSize+4*binary.MaxVarintLen64+b.Size()+len(b.Records)*2*binary.MaxVarintLen32)
	packed = binary.AppendVarint(packed, int64(b.Engine))
	packed = binary.AppendVarint(packed, b.Wall.Unix())
	packed = binary.AppendUvarint(packed, uint64(b.Wall.Nanosecond()))
	packed = binary.AppendUvarint(packed, uint64(len(b.Records)))
	records = make([]store.Record, len(b.Records))
	for i, r := range b.Records {
		packed = binary.AppendUvarint(packed, uint64(len(r.Key)))
		packed = append(packed, r.Key...)
		if r.Value == nil {
			packed = binary.AppendUvarint(packed, 0)
		} else {
			packed = binary.AppendUvarint(packed, uint64(len(r.Value))+1)
			packed = append(packed, r.Value...)
		}
		records[i] = store.Record{Key: r.Key}
		if r.Value != nil {
			records[i].Value = packed[len(packed)-len(r.Value) : len(packed) : len(packed)]
		}
	}
	return seal(logKey(b.Revision), packed), records
}

// decodeBatch is the inverse of encodeBatch. Values are copies.
func decodeBatch(revision uint64, packed []byte) (store.Batch, error) {
	d, b, n, err := decodeHeader(revision, packed)
	if err != nil {
		return store.Batch{}, err
	}
	b.Records = make([]store.Record, 0, n)
	for range n {
		key := d.bytes(d.uvarint())
		size := d.uvarint()
		r := store.Record{Key: string(key)}
		if size > 0 {
			r.Value = append([]byte{}, d.bytes(size-1)...)
		}
		b.Records = append(b.Records, r)
	}
	if d.err == nil && len(d.rest) > 0 {
		d.err = errTrailing
	}
	return b, d.err
}

// decodeHeader checks the record and reads all but its records, of which there are n.
func decodeHeader(revision uint64, packed []byte) (d *decoder, b store.Batch, n uint64, err error) {
	payload, err := unseal(logKey(revision), packed)
	if err != nil {
		return nil, store.Batch{}, 0, err
	}
	d = &decoder{rest: payload}
	b = store.Batch{Revision: revision, Engine: time.Duration(d.varint()), Wall: d.time()}
	n = d.uvarint()
	if n > uint64(len(d.rest)) { // a record takes two bytes at least: do not believe a count that cannot be
		d.err = errShort
	}
	return d, b, n, d.err
}

// decoder reads packed values one after the other. After the first error all that it returns is zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.err, d.rest = errShort, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.err, d.rest = errShort, nil
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

// time reads seconds since 1970 and nanoseconds, which hold every time.Time.
func (d *decoder) time() time.Time {
	seconds, ns := d.varint(), d.uvarint()
	if ns >= uint64(time.Second) {
		d.err, d.rest = errShort, nil
		return time.Time{}
	}
	return time.Unix(seconds, int64(ns)).UTC()
}
