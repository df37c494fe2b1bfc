// Package order sorts lists of any type by one piece of code. Package slices has a copy of its own for each type, which
// makes an artifact 15 KB larger; it is for lists that are sorted for every request.
package order

import "cmp"

// Up sorts the list, the least in front.
func Up[T cmp.Ordered](list []T) {
	heapSort(len(list), func(i, j int) bool { return list[i] < list[j] }, swapper(list))
}

// By sorts the list so that before is true of none and one in front of it. It is not stable, so before should decide of
// any two.
func By[T any](list []T, before func(a, b *T) bool) {
	heapSort(len(list), func(i, j int) bool { return before(&list[i], &list[j]) }, swapper(list))
}

// Keys returns the keys of the map, sorted.
func Keys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	Up(keys)
	return keys
}

func swapper[T any](list []T) func(i, j int) {
	return func(i, j int) { list[i], list[j] = list[j], list[i] }
}

// heapSort sorts n elements: see Williams, "Algorithm 232: Heapsort", 1964.
func heapSort(n int, less func(i, j int) bool, swap func(i, j int)) {
	for i := n/2 - 1; i >= 0; i-- {
		sink(i, n, less, swap)
	}
	for end := n - 1; end > 0; end-- {
		swap(0, end)
		sink(0, end, less, swap)
	}
}

// sink moves an element down until none below it is greater.
func sink(i, n int, less func(i, j int) bool, swap func(i, j int)) {
	for {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && less(child, child+1) {
			child++
		}
		if !less(i, child) {
			return
		}
		swap(i, child)
		i = child
	}
}
