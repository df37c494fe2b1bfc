package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Named returns the elements of all that the list names, divided by commas, in the order of all; an empty list names
// all.
func Named[T any](all []T, list string, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	var out []T
	for _, x := range all {
		if i := slices.Index(wanted, name(x)); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			out = append(out, x)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("there is no %s", strings.Join(wanted, ", no "))
	}
	return out, nil
}

// Names returns the names of all.
func Names[T any](all []T, name func(T) string) []string {
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = name(x)
	}
	return out
}
