package price

import (
	"strconv"
	"strings"
)

// decimals is how many decimals a price has at most.
const decimals = 9

// Parse reads a number as JSON has them, with an exponent or without, in billionths. It is exact: ok is false for a
// number with more than nine decimals, and for what is negative, larger than Max or no number.
func Parse(text string) (nano int64, ok bool) {
	mantissa, exponent, hasExponent := cutExponent(text)
	whole, fraction, point := strings.Cut(mantissa, ".")
	if whole == "" || point && fraction == "" {
		return 0, false
	}
	shift := 0
	if hasExponent {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift < -maxExponent || shift > maxExponent {
			return 0, false
		}
	}
	n := int64(0)
	// the digit at index i counts 10^(len(whole)-1-i+shift) of the currency
	for i, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return 0, false
		}
		at := len(whole) - 1 - i + shift + decimals
		digit := int64(c - '0')
		switch {
		case digit == 0:
		case at < 0 || at > 2*decimals:
			return 0, false
		default:
			if n += digit * powers[at]; n > Max*Nano {
				return 0, false
			}
		}
	}
	return n, true
}

// maxExponent is far beyond what a price may have.
const maxExponent = 100

// cutExponent cuts a number in front of its exponent.
func cutExponent(text string) (mantissa, exponent string, found bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

// powers are those of ten that a digit of a price may count.
var powers = func() (p [2*decimals + 1]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()
