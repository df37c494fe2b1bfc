package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Lengths draws token counts. An implementation must depend on r alone, so that a seed reproduces a workload.
type Lengths interface {
	// Draw returns the next length in tokens, at least 1.
	Draw(r *rand.Rand) int
}

// Fixed is a distribution with one value.
type Fixed int

// Draw returns the value.
func (f Fixed) Draw(*rand.Rand) int { return max(1, int(f)) }

// LogNormal is a log-normal distribution, the usual fit for prompt and answer lengths of chat traffic: most are near the
// median, a few are longer by orders of magnitude. The mean is Median*exp(Sigma²/2) before the cut at Max.
type LogNormal struct {
	Median float64 // tokens
	Sigma  float64 // standard deviation of the logarithm; 1 and more is heavy-tailed
	Min    int     // smallest length, tokens; 0 stands for 1
	Max    int     // largest length, tokens; 0 stands for no cut
}

// Draw returns the next length.
func (d LogNormal) Draw(r *rand.Rand) int {
	return clamp(d.Median*math.Exp(d.Sigma*r.NormFloat64()), d.Min, d.Max)
}

// Pareto is a Pareto distribution cut at Max. With Alpha ≤ 2 its variance is dominated by the rare long ones.
type Pareto struct {
	Min   int     // smallest length, tokens
	Alpha float64 // tail index, > 0
	Max   int     // largest length, tokens; 0 stands for no cut
}

// Draw returns the next length by inverting the distribution function.
func (d Pareto) Draw(r *rand.Rand) int {
	u := 1 - r.Float64() // in (0, 1]
	return clamp(float64(d.Min)/math.Pow(u, 1/d.Alpha), d.Min, d.Max)
}

func clamp(x float64, low, high int) int {
	if high > 0 && x > float64(high) {
		return high
	}
	return max(1, low, int(math.Round(x)))
}

// ParseLengths reads the textual form of a distribution, as used by flags: "128" (fixed), "lognormal:median,sigma,min,max"
// or "pareto:min,alpha,max".
func ParseLengths(s string) (Lengths, error) {
	kind, rest, ok := strings.Cut(s, ":")
	if !ok {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("loadgen: length %q is not a positive number", s)
		}
		return Fixed(n), nil
	}
	args, err := parseFloats(rest)
	if err != nil {
		return nil, fmt.Errorf("loadgen: lengths %q: %w", s, err)
	}
	switch {
	case kind == "lognormal" && len(args) == 4:
		return LogNormal{Median: args[0], Sigma: args[1], Min: int(args[2]), Max: int(args[3])}, nil
	case kind == "pareto" && len(args) == 3:
		return Pareto{Min: int(args[0]), Alpha: args[1], Max: int(args[2])}, nil
	}
	return nil, fmt.Errorf("loadgen: lengths %q: want N, lognormal:median,sigma,min,max or pareto:min,alpha,max", s)
}

func parseFloats(s string) ([]float64, error) {
	var out []float64
	for _, field := range strings.Split(s, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", field)
		}
		if f <= 0 || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("%q is not positive", field)
		}
		out = append(out, f)
	}
	return out, nil
}

var (
	_ Lengths = Fixed(0)
	_ Lengths = LogNormal{}
	_ Lengths = Pareto{}
)
