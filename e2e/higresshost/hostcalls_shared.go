package higresshost

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

var metricCalls = []hostCall{
	{name: "define_metric", sig: "iiii", fn: func(v *vm, a args) status {
		id, st := v.defineMetric(metricKind(a.u32(0)), a.str(v, 1))
		if st == statusOK {
			v.put32(a.u32(3), id)
		}
		return st
	}},
	{name: "increment_metric", sig: "iI", fn: func(v *vm, a args) status {
		return v.incrementMetric(a.u32(0), int64(a[1]))
	}},
	{name: "record_metric", sig: "iI", fn: func(v *vm, a args) status {
		return v.recordMetric(a.u32(0), a[1])
	}},
}
