package simulate

import "time"

// maxPoints is how many points a series has at most: beyond, each two become one.
const maxPoints = 512

// Point is what happened within a stretch of a run.
type Point struct {
	Sent, First, Served, Refused int     // requests: that came, had their first token, their last, or none
	Forwarded                    int     // requests that were sent to another region
	TTFT                         float64 // seconds to the first tokens, together
	Prompt, Cached               int     // tokens of the prompts of those with a first token
	Tokens                       int     // of the answers of those that were served
	Open                         int     // requests that were neither served nor refused at the last answer's end
}

// series is points of equal length.
type series struct {
	every  time.Duration
	points []Point
}

func newSeries() series { return series{every: 100 * time.Millisecond} }

// at returns the point of a time, which is valid until the next call.
func (s *series) at(now time.Duration) *Point {
	for int(now/s.every) >= maxPoints {
		s.halve()
	}
	i := int(now / s.every)
	for len(s.points) <= i {
		s.points = append(s.points, Point{})
	}
	return &s.points[i]
}

// halve makes points twice as long.
func (s *series) halve() {
	for i := range s.points {
		p := s.points[i]
		if i%2 == 0 {
			s.points[i/2] = p
			continue
		}
		sum := &s.points[i/2]
		sum.Sent += p.Sent
		sum.First += p.First
		sum.Served += p.Served
		sum.Refused += p.Refused
		sum.Forwarded += p.Forwarded
		sum.TTFT += p.TTFT
		sum.Prompt += p.Prompt
		sum.Cached += p.Cached
		sum.Tokens += p.Tokens
		if p.Served > 0 {
			sum.Open = p.Open
		}
	}
	s.points = s.points[:(len(s.points)+1)/2]
	s.every *= 2
}
