package lb

import "math"

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
