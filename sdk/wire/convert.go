package wire

import "time"

func duration(ns int64) time.Duration { return time.Duration(ns) }

// mapOrNil returns m, or nil if it is empty.
func mapOrNil[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

// listOrNil returns s, or nil if it is empty.
func listOrNil[E any](s []E) []E {
	if len(s) == 0 {
		return nil
	}
	return s
}

// words converts between lists of kinds of string; an empty list gives nil.
func words[To, From ~string](in []From) []To {
	return each(in, func(w From) To { return To(w) })
}

// each converts a list element by element; an empty list gives nil.
func each[From, To any](in []From, convert func(From) To) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i, v := range in {
		out[i] = convert(v)
	}
	return out
}

// tryEach is each for conversions that can fail; it stops at the first error.
func tryEach[From, To any](in []From, convert func(From) (To, error)) ([]To, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]To, len(in))
	for i, v := range in {
		var err error
		if out[i], err = convert(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}
