package higresshost

import (
	"context"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// hostCall is one function that the host offers in module env. Each returns a status.
type hostCall struct {
	name    string // without "proxy_"
	sig     string // a letter per parameter: i = i32, I = i64
	higress bool   // not offered by stock Envoy
	fn      func(v *vm, a args) status
}

// args are the raw parameters of a host call.
type args []uint64

func (a args) u32(i int) uint32 { return uint32(a[i]) }

// str reads the string whose address is parameter i and whose size is the one after it.
func (a args) str(v *vm, i int) string { return v.str(a.u32(i), a.u32(i+1)) }

func (a args) bytes(v *vm, i int) []byte { return v.read(a.u32(i), a.u32(i+1)) }

// millis reads a duration.
func (a args) millis(i int) time.Duration { return time.Duration(a.u32(i)) * time.Millisecond }

// give returns b through the two result pointers that start at parameter i.
func (a args) give(v *vm, i int, b []byte) status { return v.give(b, a.u32(i), a.u32(i+1)) }

func (c hostCall) handler() api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		v := ctx.Value(vmKey{}).(*vm)
		if v.initializing {
			if c.name != "log" {
				panic("higresshost: proxy_" + c.name + " called before the VM was started")
			}
			v.mod = mod
		}
		if hook := v.gw.OnHostCall; hook != nil {
			hook(v.worker, c.name)
		}
		v.stat = v.gw.count(Call{v.callbackName, c.name})
		stack[0] = uint64(c.fn(v, args(stack)))
	}
}

// property paths come with NUL between their parts.
func propertyPath(raw string) string { return strings.ReplaceAll(raw, "\x00", ".") }

var generalCalls = []hostCall{
	{name: "log", sig: "iii", fn: func(v *vm, a args) status {
		v.gw.log(v.worker.name, LogLevel(a.u32(0)), a.str(v, 1))
		return statusOK
	}},
	{name: "get_property", sig: "iiii", fn: func(v *vm, a args) status {
		_, s := v.context()
		value, ok := v.property(s, propertyPath(a.str(v, 0)))
		if !ok {
			return statusNotFound
		}
		return a.give(v, 2, value)
	}},
	{name: "set_property", sig: "iiii", fn: func(v *vm, a args) status {
		_, s := v.context()
		return v.setProperty(s, propertyPath(a.str(v, 0)), a.str(v, 2))
	}},
	{name: "call_foreign_function", sig: "iiiiii", fn: func(v *vm, a args) status {
		if v.gw.opts.Profile.higress() || a.str(v, 0) != "declare_property" {
			return statusNotFound
		}
		return statusOK
	}},
	{name: "set_effective_context", sig: "i", fn: func(v *vm, a args) status {
		id := a.u32(0)
		if id != 0 && v.streams[id] == nil && v.roots[id] == nil {
			return statusBadArgument
		}
		v.effective = id
		return statusOK
	}},
	{name: "done", fn: func(v *vm, _ args) status {
		r, _ := v.context()
		if r == nil || !r.pending {
			return statusNotFound
		}
		v.after = append(v.after, r.delete)
		return statusOK
	}},
	{name: "set_tick_period_milliseconds", sig: "i", fn: func(v *vm, a args) status {
		r, _ := v.context()
		r.setPeriod(a.millis(0))
		return statusOK
	}},
}

// otherCalls exist in every host, but Warmgate calls none of them: they are not modelled here and return this status.
var otherCalls = []hostCall{
	{name: "add_header_map_value", sig: "iiiii", fn: unimplemented},
	{name: "set_header_map_pairs", sig: "iii", fn: unimplemented},
	{name: "get_header_map_size", sig: "ii", fn: unimplemented},
	{name: "get_buffer_status", sig: "iii", fn: unimplemented},
	{name: "set_buffer_bytes", sig: "iiiii", fn: unimplemented},
	{name: "close_stream", sig: "i", fn: unimplemented},
	{name: "get_metric", sig: "ii", fn: unimplemented},
	{name: "get_current_time_nanoseconds", sig: "i", fn: unimplemented},
	{name: "get_log_level", sig: "i", fn: unimplemented},
	{name: "get_status", sig: "iii", fn: unimplemented},
	{name: "inject_encoded_data_to_filter_chain", sig: "iii", higress: true, fn: unimplemented},
	{name: "grpc_call", sig: "iiiiiiiiiiii", fn: unimplemented},
	{name: "grpc_stream", sig: "iiiiiiiii", fn: unimplemented},
	{name: "grpc_send", sig: "iiii", fn: unimplemented},
	{name: "grpc_close", sig: "i", fn: unimplemented},
	{name: "grpc_cancel", sig: "i", fn: unimplemented},
}

func unimplemented(*vm, args) status { return statusUnimplemented }
