package simulate

import (
	"errors"
	"math"
	"time"
)

// Place is a region in which a part of the users is.
type Place struct {
	Share float64 // relative to the other places, above 0
	Zone  float64 // by how many hours its clocks are ahead of UTC
}

// Day describes how many users of [Sessions] are awake over a day, which begins at midnight UTC: most of those of a
// region at 15:00 there and fewest twelve hours later, with a cosine between them. Who falls asleep finishes the
// conversation. The zero value: all are always awake.
type Day struct {
	Length time.Duration // in the time of the run, at whose end nothing more is sent
	Night  float64       // users that are awake at the quietest hour, over those at the busiest, from 0 to 1
}

const (
	hours   = 24
	busiest = 15
)

// validate reports what cannot be played.
func (d *Day) validate() error {
	switch {
	case d.Length < 0 || d.Length > maxPauses:
		return errors.New("want a day that takes no longer than ten years")
	case !(d.Night >= 0 && d.Night <= 1):
		return errors.New("want a share of users at night from 0 to 1")
	}
	return nil
}

// mean is which share of the users is awake on average.
func (d *Day) mean() float64 {
	if d.Length == 0 {
		return 1
	}
	return (1 + d.Night) / 2
}

// wakes returns when a user is awake next, now or later. rank is which share of the users in the zone sleeps for less
// long.
func (d *Day) wakes(now time.Duration, zone, rank float64) time.Duration {
	if rank <= d.Night {
		return now
	}
	// awake is for how many hours before the busiest one, and after it, the cosine is above the rank
	awake := hours / (2 * math.Pi) * math.Acos(2*(rank-d.Night)/(1-d.Night)-1)
	hour := hours*now.Seconds()/d.Length.Seconds() + zone
	since := math.Mod(hour-busiest+awake, hours) // that it is awake, or was
	if since < 0 {
		since += hours
	}
	if since < 2*awake {
		return now
	}
	return now + time.Duration(math.Ceil((hours-since)/hours*float64(d.Length)))
}

// divided is a load whose sessions are divided among regions.
type divided struct {
	Load
	places []Place
}

// Divide returns a load of which each region has its share of the sessions.
func Divide(load Load, places []Place) Load { return &divided{load, places} }

func (d *divided) Send(now time.Duration, number int) *Request {
	r := d.Load.Send(now, number)
	if r != nil {
		r.Region = placeOf(d.places, float64(name(r.Session, 8)>>11)/(1<<53))
	}
	return r
}

// placeOf returns the place that has the point from 0 to 1, if each has a stretch as long as its share.
func placeOf(places []Place, at float64) int {
	sum := 0.0
	for i := range places {
		sum += places[i].Share
	}
	for i := range places {
		if at -= places[i].Share / sum; at < 0 {
			return i
		}
	}
	return max(0, len(places)-1)
}
