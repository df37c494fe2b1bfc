package higresshost

import "github.com/warmgate/warmgate/e2e/fakehost"

var sharedCalls = []hostCall{
	{name: "get_shared_data", sig: "iiiii", fn: func(v *vm, a args) status {
		value, cas, err := v.gw.shared.Get(a.str(v, 0))
		if err != nil {
			return statusNotFound
		}
		v.put32(a.u32(4), cas)
		return a.give(v, 2, value)
	}},
	{name: "set_shared_data", sig: "iiiii", fn: func(v *vm, a args) status {
		if v.gw.shared.Set(a.str(v, 0), a.bytes(v, 2), a.u32(4)) != nil {
			return statusCasMismatch
		}
		return statusOK
	}},
}

var metricKinds = [...]string{fakehost.Counter, fakehost.Gauge, fakehost.Histogram} // as the ABI numbers them

var metricCalls = []hostCall{
	{name: "define_metric", sig: "iiii", fn: func(v *vm, a args) status {
		kind := a.u32(0)
		if int(kind) >= len(metricKinds) {
			return statusBadArgument
		}
		v.nextMetric += 4
		id := v.nextMetric | kind // as the gateways number them
		v.metrics[id] = v.gw.metrics.Define(metricKinds[kind], a.str(v, 1))
		v.put32(a.u32(3), id)
		return statusOK
	}},
	{name: "increment_metric", sig: "iI", fn: func(v *vm, a args) status {
		name, ok := v.metrics[a.u32(0)]
		switch {
		case !ok:
			return statusNotFound
		case !v.gw.metrics.Increment(name, int64(a[1])):
			return statusBadArgument
		}
		return statusOK
	}},
	{name: "record_metric", sig: "iI", fn: func(v *vm, a args) status {
		name, ok := v.metrics[a.u32(0)]
		if !ok {
			return statusNotFound
		}
		v.gw.metrics.Record(name, a[1])
		return statusOK
	}},
}
