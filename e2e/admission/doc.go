// Package admission tests the admission API on real Envoys: over workers, with bodies of every kind, and through the
// life of tasks.
package admission
