package hcltext

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Value is an attribute to be read. Each way of reading it returns false if it is null, which says nothing, or wrong, which is reported.
type Value struct {
	decoder *Decoder
	Path    string
	Expr    hcl.Expression
	At      hcl.Range // of its name
}

// Fail reports what is wrong with the value.
func (v Value) Fail(summary, detail string) { v.decoder.Fail(v.Path, v.Expr.Range(), summary, detail) }

// Any returns the value as it is.
func Any(v Value) (cty.Value, bool) {
	value, ok := v.decoder.Evaluate(v.Path, v.Expr)
	return value, ok && !value.IsNull()
}

// Evaluate returns the value of an expression at a path, or false if it has none, which is reported.
func (d *Decoder) Evaluate(path string, expr hcl.Expression) (cty.Value, bool) {
	value, diags := d.Scope.evaluate(expr)
	for _, diag := range diags {
		if diag.Summary == "Variables not allowed" {
			diag.Detail = "Files of this kind have no variables. In text, ${ is written $${."
		}
	}
	d.Diags = append(d.Diags, diags...)
	if diags.HasErrors() || value == cty.NilVal {
		d.failed = append(d.failed, path)
		return cty.NilVal, false
	}
	return value, true
}

// String reads text. Numbers and flags are taken as they are written.
func String(v Value) (string, bool) {
	value, ok := v.as(cty.String, "text", `"like this"`)
	if !ok {
		return "", false
	}
	return value.AsString(), true
}

// Bool reads true or false.
func Bool(v Value) (on, ok bool) {
	value, ok := v.as(cty.Bool, "true or false", "")
	return ok && value.True(), ok
}

// Int reads a whole number.
func Int(v Value) (int, bool) {
	value, ok := v.as(cty.Number, "a whole number", "")
	if !ok {
		return 0, false
	}
	n, ok := whole(value)
	if !ok || n != int64(int(n)) {
		v.Fail("Not a whole number", "It must be a number without a fraction, of less than 19 digits.")
		return 0, false
	}
	return int(n), true
}

// Float reads a number.
func Float(v Value) (float64, bool) {
	value, ok := v.as(cty.Number, "a number", "")
	if !ok {
		return 0, false
	}
	f, _ := value.AsBigFloat().Float64()
	return f, true
}

// as converts to a type of which an example says how it is written.
func (v Value) as(want cty.Type, name, example string) (cty.Value, bool) {
	value, ok := Any(v)
	if !ok {
		return cty.NilVal, false
	}
	if !sameKind(value.Type(), want) || isHuge(value) {
		v.wrongType(name, example)
		return cty.NilVal, false
	}
	converted, err := convert.Convert(value, want)
	if err != nil || converted.IsNull() {
		v.wrongType(name, example)
		return cty.NilVal, false
	}
	return converted, true
}

// sameKind refuses "3" for a number and 1 for text that is true or false, which convert would accept. Numbers and flags are fine as text.
func sameKind(got, want cty.Type) bool { return want == cty.String || got == want }

func (v Value) wrongType(name, example string) {
	detail := "It must be " + name + "."
	if example != "" {
		detail = fmt.Sprintf("It must be %s, %s.", name, example)
	}
	v.Fail("Wrong type of value", detail)
}

// Duration reads text such as "10s".
func Duration(v Value) (time.Duration, bool) {
	value, ok := Any(v)
	if !ok {
		return 0, false
	}
	const detail = `A duration is a number and its unit in quotes: "500ms", "10s", "5m", "1h30m".`
	if value.Type() != cty.String {
		v.Fail("Not a duration", detail)
		return 0, false
	}
	d, err := time.ParseDuration(value.AsString())
	if err != nil {
		v.Fail("Not a duration", detail)
		return 0, false
	}
	return d, true
}

// Bytes reads a number of bytes, or text such as "256MiB".
func Bytes(v Value) (int64, bool) {
	value, ok := Any(v)
	if !ok {
		return 0, false
	}
	var n int64
	switch value.Type() {
	case cty.Number:
		n, ok = whole(value)
	case cty.String:
		n, ok = ParseBytes(value.AsString())
	default:
		ok = false
	}
	if !ok {
		v.Fail("Not a size", `A size is a number of bytes, or text with a unit: "512KiB", "256MiB", "1.5GiB", also "1GB" for 1000 MB.`)
	}
	return n, ok
}

// whole returns a number that has no fraction and is not too large.
func whole(number cty.Value) (int64, bool) {
	n, accuracy := number.AsBigFloat().Int64()
	return n, accuracy == big.Exact
}

// ParseBytes reads a size: digits, perhaps with a fraction, and one of B, KiB, MiB, GiB, TiB, KB, MB, GB and TB. A part of a byte counts as one.
func ParseBytes(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	n := len(strings.TrimRight(text, "BiKMGTkb"))
	factor, known := unitSize(strings.TrimSpace(text[n:]))
	number := strings.TrimSpace(text[:n])
	if !known || number == "" || len(number) > 40 || strings.Trim(number, "0123456789.") != "" {
		return 0, false
	}
	amount, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, false
	}
	amount.Mul(amount, new(big.Rat).SetInt64(factor))
	whole, rest := new(big.Int).QuoRem(amount.Num(), amount.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64(), whole.IsInt64()
}

func unitSize(unit string) (int64, bool) {
	switch unit {
	case "", "B":
		return 1, true
	case "KiB":
		return 1 << 10, true
	case "MiB":
		return 1 << 20, true
	case "GiB":
		return 1 << 30, true
	case "TiB":
		return 1 << 40, true
	case "KB", "kB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	case "TB":
		return 1e12, true
	}
	return 0, false
}

// FormatBytes writes a size as ParseBytes reads it, in the largest unit of which it is a multiple.
func FormatBytes(n int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size, _ := unitSize(unit); n != 0 && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Milli reads a number such as 0.5 as thousandths. What is not 0 is not rounded to 0.
func Milli(v Value) (int64, bool) {
	f, ok := Float(v)
	if !ok {
		return 0, false
	}
	milli := math.Round(f * 1000)
	switch {
	case math.Abs(milli) > 1<<53:
		v.Fail("Number out of range", "It is larger than any machine.")
		return 0, false
	case milli == 0 && f > 0:
		return 1, true
	case milli == 0 && f < 0:
		return -1, true
	}
	return int64(milli), true
}
