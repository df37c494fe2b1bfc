package lb

import "math"

// RoundDigits truncates x to the given number of binary digits after the first.
func RoundDigits(x float64, digits uint) float64 {
	return math.Float64frombits(math.Float64bits(x) &^ (1<<(52-digits) - 1))
}
