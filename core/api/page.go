package api

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Page sizes of lists.
const (
	defaultPage = 500
	maxPage     = 5000
)

// page is the part of a list that was asked for.
type page struct {
	size  int
	after string // key of the last row of the page before
}

func newPage(size int32, token string) (page, error) { return pageOf("", size, token) }

// optionalPage is for a list that is given whole unless a page of it is asked for. prefix is that of the fields' names.
func optionalPage(prefix string, size int32, token string) (p page, asked bool, err error) {
	p, err = pageOf(prefix, size, token)
	return p, size != 0 || token != "", err
}

func pageOf(prefix string, size int32, token string) (page, error) {
	p := page{size: int(size)}
	switch {
	case size < 0 || size > maxPage:
		return page{}, invalid("the request", cluster.Problem{Path: prefix + "page_size", Summary: "Number out of range", Detail: "It must be between 0 and 5000."})
	case size == 0:
		p.size = defaultPage
	}
	after, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return page{}, invalid("the request", cluster.Problem{Path: prefix + "page_token", Summary: "Not a page token", Detail: "Use next_page_token of the answer before."})
	}
	p.after = string(after)
	return p, nil
}

// passed reports whether the row of that key was on a page before.
func (p page) passed(key string) bool { return p.after != "" && key <= p.after }

// slotOrder is the key of a slot's row: numbers are in their order, and come before names.
func slotOrder(key string) string {
	if _, err := strconv.ParseUint(key, 10, 63); err != nil {
		return "~" + key
	}
	return fmt.Sprintf("%019s", key)
}

// momentOrder begins the key of a row in a list by time.
func momentOrder(t time.Time) string { return t.UTC().Format("20060102150405.000000000|") }

// row is one row of a list under the key by which the list is ordered. Keys are unique.
type row[T any] struct {
	key   string
	value T
}

// cut returns the rows of the page, in order, and the token of the next page, "" if there is none. The rows may be in any order.
func cut[T any](p page, rows []row[T]) (values []T, next string) {
	rows = slices.DeleteFunc(rows, func(r row[T]) bool { return p.passed(r.key) })
	slices.SortFunc(rows, func(a, b row[T]) int { return strings.Compare(a.key, b.key) })
	if len(rows) > p.size {
		rows = rows[:p.size]
		next = base64.RawURLEncoding.EncodeToString([]byte(rows[len(rows)-1].key))
	}
	values = make([]T, len(rows))
	for i, r := range rows {
		values[i] = r.value
	}
	return values, next
}
