package redisclient_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// Why an endpoint was chosen is behind the grant. A Redis that says what cannot be gets no request.
func TestWhy(t *testing.T) {
	const cost, tie, home = 1, 2, 3 // as lua/choose.lua has them
	for _, c := range []struct {
		rule   byte
		next   uint16
		lostBy float64
		want   lb.Why // the zero value: garbage
	}{
		{cost, 1, 2.5, lb.Why{Rule: lb.ByCost, RunnerUp: 1, LostBy: 2.5}},
		{tie, 2, 0, lb.Why{Rule: lb.ByTie, RunnerUp: 2}},
		{home, 65535, 0, lb.Why{Rule: lb.ByHome, RunnerUp: lb.Full}},
		{cost, 1, math.Inf(1), lb.Why{Rule: lb.ByCost, RunnerUp: 1, LostBy: lb.MaxLostBy}},
		{0, 1, 1, lb.Why{}},
		{4, 1, 1, lb.Why{}},
		{cost, 3, 1, lb.Why{}},
		{cost, 1, -1, lb.Why{}},
		{cost, 1, math.NaN(), lb.Why{}},
	} {
		m := &manualTransport{}
		s := newManualStore(m, newMemory())
		var got lb.Grant
		var err error
		s.Reserve(0, 1, formatPlan(), func(g lb.Grant, e error) { got, err = g, e })
		b := append([]byte("\x00\x00"+"\x01\x00\x00\x00"+"\x03\x00\x00\x00\x00\x00\x00\x00"), c.rule)
		b = binary.LittleEndian.AppendUint16(b, c.next)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.lostBy))
		m.answer(0, 1, fmt.Sprintf("$%d\r\n%s\r\n", len(b), b))
		switch {
		case c.want == lb.Why{}:
			if !errors.Is(err, redisclient.ErrGarbage) {
				t.Errorf("%+v: %+v, %v", c, got, err)
			}
		case err != nil || got.Why != c.want:
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}
