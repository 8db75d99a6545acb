package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/setpointd/setpoint/core/store"
)

// Layout of bbolt's pages (file format version 2). Numbers are in the byte order of the machine that wrote them.
const (
	pageHeader  = 16 // id 8, flags 2, count 2, overflow 4
	elementSize = 16 // branch: pos 4, ksize 4, page 8; leaf: flags 4, pos 4, ksize 4, vsize 4
	bucketSize  = 16 // root page 8, sequence 8; in a leaf element's value, followed by a page if the root is 0

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf element

	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	metaSize     = 64
	noFreelist   = ^uint64(0)
	largeCount   = 0xFFFF // of a freelist: the count is in the first 8 bytes
	minPageSize  = 512
	maxPageSize  = 16 << 20
	firstContent = 2 // pages 0 and 1 are the metas
)

// pageCheck walks all pages of a file as bbolt would, and finds what bbolt would stumble over: pages out of place, used twice or free and
// used, elements that leave their page, keys out of order. It reads the file, not the memory map, and never panics on what it finds.
type pageCheck struct {
	file  string
	r     io.ReaderAt
	size  uint64   // of a page, in bytes
	high  uint64   // the first page number that is not in use
	taken []uint64 // a bit for each page that was seen; others write here too
	buf   []byte
}

// pageMeta is what is needed of one of the two meta pages.
type pageMeta struct {
	pageSize uint32
	root     uint64
	freelist uint64
	high     uint64
	txid     uint64
}

// checkPages checks the structure of a bbolt file of the given size in bytes. Clean says that the list of free pages is in it, so that it was
// closed properly. An error is a *store.CorruptError or one of reading.
func checkPages(file string, r io.ReaderAt, size int64) (clean bool, err error) {
	c := &pageCheck{file: file, r: r, size: minPageSize}
	first, err := c.meta(0)
	if err != nil {
		return false, err
	}
	c.size = uint64(first.pageSize)
	second, err := c.meta(1)
	if err != nil {
		return false, err
	}
	newest := first
	if second.txid > first.txid {
		newest = second
	}
	if second.pageSize != first.pageSize {
		return false, c.corrupt(1, "page sizes %d and %d", first.pageSize, second.pageSize)
	}
	c.high = newest.high
	if c.high > uint64(size)/c.size {
		return false, c.corrupt(0, "the file has %d bytes and should have %d: it was cut off", size, c.high*c.size)
	}
	c.taken = make([]uint64, c.high/64+1)
	if err := c.all(newest.root); err != nil {
		return false, err
	}
	if newest.freelist == noFreelist {
		return false, nil
	}
	return true, c.freelist(newest.freelist)
}

// meta reads one of the two meta pages. Both must be right: if one is not, the last commit may be the one that is lost.
func (c *pageCheck) meta(page uint64) (pageMeta, error) {
	var b [pageHeader + metaSize]byte
	if _, err := c.r.ReadAt(b[:], int64(page*c.size)); err != nil {
		return pageMeta{}, &store.CorruptError{File: c.file, Part: "page", Offset: int64(page * c.size), Reason: "meta page cannot be read", Err: err}
	}
	m := b[pageHeader:]
	order := binary.NativeEndian
	if order.Uint32(m) != metaMagic {
		return pageMeta{}, c.corrupt(page, "meta page %d is not one of a bbolt file", page)
	}
	if v := order.Uint32(m[4:]); v != metaVersion {
		return pageMeta{}, c.corrupt(page, "bbolt format %d, not %d", v, metaVersion)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(m[:metaSize-8]) // never fails
	if sum.Sum64() != order.Uint64(m[metaSize-8:]) {
		return pageMeta{}, c.corrupt(page, "meta page %d has a wrong checksum, so the last commit may be missing", page)
	}
	out := pageMeta{
		pageSize: order.Uint32(m[8:]),
		root:     order.Uint64(m[16:]),
		freelist: order.Uint64(m[32:]),
		high:     order.Uint64(m[40:]),
		txid:     order.Uint64(m[48:]),
	}
	if out.pageSize < minPageSize || out.pageSize > maxPageSize {
		return pageMeta{}, c.corrupt(page, "page size %d", out.pageSize)
	}
	return out, nil
}

// page takes a page, with its overflow, into account and reads it. The bytes are good until the next call.
func (c *pageCheck) page(id uint64) ([]byte, error) {
	if id < firstContent || id >= c.high {
		return nil, c.corrupt(id, "page %d is referred to, and pages are %d to %d", id, firstContent, c.high-1)
	}
	b, err := c.read(nil, id, 1)
	if err != nil {
		return nil, err
	}
	if got := binary.NativeEndian.Uint64(b); got != id {
		return nil, c.corrupt(id, "page %d says that it is page %d", id, got)
	}
	pages := uint64(binary.NativeEndian.Uint32(b[12:])) + 1
	if id+pages > c.high {
		return nil, c.corrupt(id, "page %d is %d pages long, past the last page %d", id, pages, c.high-1)
	}
	for i := id; i < id+pages; i++ {
		if err := c.take(i); err != nil {
			return nil, err
		}
	}
	if pages == 1 {
		return b, nil
	}
	return c.read(b, id, pages)
}

// read reads pages from one on into the buffer, of which it has the first already where have is not nil.
func (c *pageCheck) read(have []byte, id, pages uint64) ([]byte, error) {
	if need := int(pages * c.size); cap(c.buf) < need {
		c.buf = append(make([]byte, 0, need), have...)
	}
	b := c.buf[:pages*c.size]
	if _, err := c.r.ReadAt(b[len(have):], int64(id*c.size)+int64(len(have))); err != nil {
		return nil, fmt.Errorf("read page %d of %s: %w", id, c.file, err)
	}
	return b, nil
}

func (c *pageCheck) take(id uint64) error {
	if bit := uint64(1) << (id % 64); atomic.OrUint64(&c.taken[id/64], bit)&bit != 0 {
		return c.corrupt(id, "page %d is used twice", id)
	}
	return nil
}

// subtree is a page to be walked, with the range [from, to) that its keys must be in; nil is no bound.
type subtree struct {
	page     uint64
	from, to []byte
}

// all walks the trees of a file: the upper pages level by level, until there are enough subtrees to keep all processors busy with one after the other. Of several
// errors it returns the one that is first in the order of the trees.
func (c *pageCheck) all(root uint64) error {
	const enough = 64
	trees := []subtree{{page: root}}
	for len(trees) > 0 && len(trees) < enough {
		var below []subtree
		for _, t := range trees {
			children, err := c.node(t)
			if err != nil {
				return err
			}
			below = append(below, children...)
		}
		trees = below
	}
	errs := make([]error, len(trees))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(trees)) {
		group.Go(func() {
			own := *c
			own.buf = nil
			for i := next.Add(1) - 1; i < int64(len(trees)); i = next.Add(1) - 1 {
				errs[i] = own.tree(trees[i])
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tree walks the tree under a page.
func (c *pageCheck) tree(t subtree) error {
	children, err := c.node(t)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := c.tree(child); err != nil {
			return err
		}
	}
	return nil
}

// node checks one page of a tree and returns those below it.
func (c *pageCheck) node(t subtree) ([]subtree, error) {
	b, err := c.page(t.page)
	if err != nil {
		return nil, err
	}
	switch flags := binary.NativeEndian.Uint16(b[8:]); flags {
	case flagBranch:
		return c.branch(t.page, b, t.from, t.to)
	case flagLeaf:
		return c.leaf(t.page, b, t.from, t.to)
	default:
		return nil, c.corrupt(t.page, "page %d has flags %#x", t.page, flags)
	}
}

func (c *pageCheck) branch(id uint64, b, from, to []byte) ([]subtree, error) {
	count := int(binary.NativeEndian.Uint16(b[10:]))
	if count == 0 {
		return nil, c.corrupt(id, "page %d is a branch without children", id)
	}
	children := make([]subtree, 0, count)
	var last []byte
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(b) {
			return nil, c.corrupt(id, "page %d has no room for %d elements", id, count)
		}
		e := b[at:]
		key, _, err := c.element(id, b, at, binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]), 0)
		if err != nil {
			return nil, err
		}
		if err := c.inOrder(id, i, last, key, from, to); err != nil {
			return nil, err
		}
		last = bytes.Clone(key)
		if i > 0 {
			children[i-1].to = last
		}
		children = append(children, subtree{page: binary.NativeEndian.Uint64(e[8:]), from: last, to: to})
	}
	return children, nil
}

// leaf checks a leaf page and returns the roots of the buckets in it.
func (c *pageCheck) leaf(id uint64, b, from, to []byte) ([]subtree, error) {
	count := int(binary.NativeEndian.Uint16(b[10:]))
	var buckets []subtree
	var last []byte
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(b) {
			return nil, c.corrupt(id, "page %d has no room for %d elements", id, count)
		}
		e := b[at:]
		key, value, err := c.element(id, b, at, binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:]))
		if err != nil {
			return nil, err
		}
		if err := c.inOrder(id, i, last, key, from, to); err != nil {
			return nil, err
		}
		last = key
		switch binary.NativeEndian.Uint32(e) {
		case 0:
		case flagBucket:
			below, err := c.bucket(id, value)
			if err != nil {
				return nil, err
			}
			buckets = append(buckets, below...)
		default:
			return nil, c.corrupt(id, "page %d has an element with flags %#x", id, binary.NativeEndian.Uint32(e))
		}
	}
	return buckets, nil
}

// bucket checks a bucket's value: a root page elsewhere, or a small page in the value itself.
func (c *pageCheck) bucket(id uint64, value []byte) ([]subtree, error) {
	if len(value) < bucketSize {
		return nil, c.corrupt(id, "page %d has a bucket of %d bytes", id, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return []subtree{{page: root}}, nil
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != flagLeaf {
		return nil, c.corrupt(id, "page %d has a bucket without a page", id)
	}
	return c.leaf(id, inline, nil, nil)
}

// element cuts a key and a value out of a page; pos counts from the element's own start, at.
func (c *pageCheck) element(id uint64, b []byte, at int, pos, ksize, vsize uint32) (key, value []byte, err error) {
	start := uint64(at) + uint64(pos)
	middle := start + uint64(ksize)
	end := middle + uint64(vsize)
	if pos < elementSize || end > uint64(len(b)) {
		return nil, nil, c.corrupt(id, "page %d has an element outside of it", id)
	}
	return b[start:middle], b[middle:end], nil
}

// inOrder checks the i-th key of a page against the one before it and the page's range. The first key of a leftmost branch may be empty.
func (c *pageCheck) inOrder(id uint64, i int, last, key, from, to []byte) error {
	if i > 0 && bytes.Compare(last, key) >= 0 || bytes.Compare(key, from) < 0 || to != nil && bytes.Compare(key, to) >= 0 {
		return c.corrupt(id, "page %d has keys out of order", id)
	}
	return nil
}

// freelist checks that what is listed as free is not in use. Pages that are neither are lost space, no more.
func (c *pageCheck) freelist(id uint64) error {
	b, err := c.page(id)
	if err != nil {
		return err
	}
	if flags := binary.NativeEndian.Uint16(b[8:]); flags != flagFreelist {
		return c.corrupt(id, "page %d, the free list, has flags %#x", id, flags)
	}
	count, ids := uint64(binary.NativeEndian.Uint16(b[10:])), b[pageHeader:]
	if count == largeCount {
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return c.corrupt(id, "page %d, the free list, has no room for %d pages", id, count)
	}
	for i := range count {
		free := binary.NativeEndian.Uint64(ids[8*i:])
		if free < firstContent || free >= c.high {
			return c.corrupt(id, "page %d is free, and pages are %d to %d", free, firstContent, c.high-1)
		}
		if err := c.take(free); err != nil {
			return err
		}
	}
	return nil
}

func (c *pageCheck) corrupt(page uint64, format string, args ...any) error {
	return &store.CorruptError{File: c.file, Part: "page", Offset: int64(page * c.size), Reason: fmt.Sprintf(format, args...)}
}
