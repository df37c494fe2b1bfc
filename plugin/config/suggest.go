package config

import "strings"

// oneOf lists the values that are accepted.
func oneOf(known []string) string {
	if len(known) == 1 {
		return quote(known[0])
	}
	return `one of "` + strings.Join(known, `", "`) + `"`
}

// DidYouMean returns a hint at the known value that is most similar to what was written, "" if none is similar.
func DidYouMean(written string, known []string) string {
	if name := nearest(written, known); name != "" {
		return "; did you mean " + quote(name) + "?"
	}
	return ""
}

// nearest returns the name that is most similar to what was written, "" if none is similar. Case, underscores, hyphens,
// dots and blanks do not count as differences.
func nearest(written string, names []string) string {
	const maxLength = 64 // no key is longer; bounds the work
	if len(written) > maxLength {
		return ""
	}
	written = plain(written)
	best, least := "", 1+len(written)/3
	for _, name := range names {
		like := plain(name)
		if max(len(like)-len(written), len(written)-len(like)) >= least { // which is the least that they differ by
			continue
		}
		if d := distance(written, like); d < least {
			best, least = name, d
		}
	}
	return best
}

// plain brings camelCase and snake_case to the same form.
func plain(s string) string {
	s = strings.ToLower(s)
	for _, separator := range []string{"_", "-", ".", " "} {
		s = strings.ReplaceAll(s, separator, "")
	}
	return s
}

// distance is the number of bytes to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
