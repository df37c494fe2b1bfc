package lb

import (
	"fmt"
	"math"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func addrOf(i int) string { return fmt.Sprintf("10.0.0.%d:80", i+1) }
