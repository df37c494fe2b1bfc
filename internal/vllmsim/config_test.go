package vllmsim

import "testing"

// TestSlowMode checks that the engine is as much slower as the tuning says, and that the tuning keeps its own speed.
func TestSlowMode(t *testing.T) {
	tuning := DefaultTuning()
	tuning.Mode, tuning.Speed, tuning.SlowFactor = ModeSlow, 2, 10
	if got := tuning.times(); got.Speed != 0.2 || tuning.Speed != 2 {
		t.Errorf("an engine of speed 2 has %g, its tuning %g; want 0.2 and 2", got.Speed, tuning.Speed)
	}
	tuning.Mode = ModeOK
	if got := tuning.times(); got != tuning.Times {
		t.Errorf("%+v in mode ok, want %+v", got, tuning.Times)
	}
}
