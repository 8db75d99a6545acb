package place

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// amountText writes an amount of a resource for people: cores, bytes in binary units, or a bare number.
func amountText(resource string, amount int64) string {
	switch resource {
	case "cpu":
		return decimals(amount, 1000, 3)
	case "memory":
		return bytesText(amount)
	}
	return strconv.FormatInt(amount, 10)
}

func bytesText(b int64) string {
	sign := ""
	if b < 0 {
		sign, b = "-", -max(b, -math.MaxInt64)
	}
	units := []string{"GiB", "MiB", "KiB"}
	for k, name := range units {
		if size := int64(1) << (10 * (len(units) - k)); b >= size {
			return sign + decimals(b, size, 2) + name
		}
	}
	return sign + strconv.FormatInt(b, 10) + "B"
}

// decimals writes amount / unit with at most the given number of decimals, cut and not rounded, so that less never reads like as much.
func decimals(amount, unit int64, places int) string {
	sign := ""
	if amount < 0 {
		sign, amount = "-", -max(amount, -math.MaxInt64)
	}
	rest, digits := amount%unit, ""
	for range places {
		rest *= 10
		digits += strconv.FormatInt(rest/unit, 10)
		rest %= unit
	}
	if digits = strings.TrimRight(digits, "0"); digits != "" {
		digits = "." + digits
	}
	return fmt.Sprintf("%s%d%s", sign, amount/unit, digits)
}
