package ratelimit

import (
	"strings"
	"time"
)

// Times of day are read here, not by package time, whose layouts would add more to the module than this file.

// date is a text with numbers at known places.
type date struct {
	text string
	bad  bool // a number was none, or out of bounds
}

// number reads the number of so many digits at the place. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (d *date) number(at, digits, least, most int) (n int) {
	for _, c := range []byte(d.text[at : at+digits]) {
		d.bad = d.bad || c < '0' || c > '9'
		n = 10*n + int(c-'0')
	}
	d.bad = d.bad || n < least || n > most
	return n
}

// seconds reads "08:49:37" at the place.
func (d *date) seconds(at int) int {
	d.bad = d.bad || d.text[at+2] != ':' || d.text[at+5] != ':'
	return 3600*d.number(at, 2, 0, 23) + 60*d.number(at+3, 2, 0, 59) + d.number(at+6, 2, 0, 60)
}

// since returns the time from the Unix epoch to the second of the day, and whether all numbers were good. A day that
// its month does not have counts on into the next one.
func (d *date) since(year, month, day, second int) (time.Duration, bool) {
	if month <= 2 { // years begin in March, so that the day that some lack is their last
		year, month = year-1, month+12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1
	const epoch = 719468 // of the first of March of the year 0
	return time.Duration((days-epoch)*86400+second) * time.Second, !d.bad
}

const firstYear, lastYear = 1970, 2200

// rfc3339 reads "2026-01-31T12:00:00.5Z", or with an offset such as "+08:00", and returns the time since the Unix
// epoch. A part of a second counts as a whole one.
func rfc3339(s string) (time.Duration, bool) {
	const least = len("2026-01-31T12:00:00Z")
	if len(s) < least || s[4] != '-' || s[7] != '-' || s[10] != 'T' {
		return 0, false
	}
	d := date{text: s}
	second := d.seconds(11)
	rest := s[least-1:]
	if rest[0] == '.' {
		second++
		rest = strings.TrimLeft(rest[1:], "0123456789")
	}
	if len(rest) == len("+08:00") && rest[3] == ':' {
		zone := date{text: rest}
		offset := 3600*zone.number(1, 2, 0, 23) + 60*zone.number(4, 2, 0, 59)
		switch rest[0] {
		case '+':
			second -= offset
		case '-':
			second += offset
		default:
			return 0, false
		}
		d.bad = d.bad || zone.bad
	} else if rest != "Z" {
		return 0, false
	}
	return d.since(d.number(0, 4, firstYear, lastYear), d.number(5, 2, 1, 12), d.number(8, 2, 1, 31), second)
}

// httpDate reads a date in one of the three forms that RFC 9110 has recipients read. wall is called for one that has
// two digits of the year: it is the one that is at most 50 years ahead.
//
//	Sun, 06 Nov 1994 08:49:37 GMT
//	Sunday, 06-Nov-94 08:49:37 GMT
//	Sun Nov  6 08:49:37 1994
func httpDate(s string, wall func() time.Duration) (time.Duration, bool) {
	weekday, rest, comma := strings.Cut(s, ", ")
	d, at := date{text: rest}, places{}
	switch {
	case comma && len(weekday) == 3 && len(rest) == len("06 Nov 1994 08:49:37 GMT") && rest[20:] == " GMT":
		at = places{day: 0, month: 3, year: 7, time: 12}
	case comma && len(rest) == len("06-Nov-94 08:49:37 GMT") && rest[2] == '-' && rest[6] == '-' && rest[18:] == " GMT":
		at = places{day: 0, month: 3, year: 7, time: 10}
	case !comma && len(s) == len("Sun Nov  6 08:49:37 1994") && s[3] == ' ' && s[7] == ' ':
		d.text = s[:8] + strings.Replace(s[8:10], " ", "0", 1) + s[10:]
		at = places{day: 8, month: 4, year: 20, time: 11}
	default:
		return 0, false
	}
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", d.text[at.month:at.month+3])
	d.bad = month < 0 || month%3 != 0
	year := 0
	if at.time == 10 { // two digits of the year
		const length = 365*24*time.Hour + 6*time.Hour
		latest := firstYear + int(wall()/length) + 50
		if year = latest/100*100 + d.number(at.year, 2, 0, 99); year > latest {
			year -= 100
		}
		d.bad = d.bad || year < firstYear
	} else {
		year = d.number(at.year, 4, firstYear, lastYear)
	}
	return d.since(year, month/3+1, d.number(at.day, 2, 1, 31), d.seconds(at.time))
}

// places is where the parts of a date are in its text.
type places struct{ day, month, year, time int }
