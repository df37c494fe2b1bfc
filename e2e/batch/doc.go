// Package batch tests examples/batch: its worker pool and its DAG solve tasks with simulated models behind a real
// Envoy's admission API, and lose none when workers are killed.
package batch
