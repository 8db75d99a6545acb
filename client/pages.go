package client

import (
	"iter"
)

// All yields the items of a list that comes in pages, one page after another as they are needed. fetch returns the page behind a token, "" standing for the first, with the
// token of the next. An error is yielded once, as the last.
func All[T any](fetch func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			items, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range items {
				if !yield(x, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}
