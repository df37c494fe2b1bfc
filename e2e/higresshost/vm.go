package higresshost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"
)

// code is a compiled module.
type code struct {
	abi      ABI
	compiled wazero.CompiledModule
	runtime  wazero.Runtime // that has compiled it
}

// vm is one instance of the module.
type vm struct {
	gw     *Gateway
	worker *Worker
	code   *code
	mod    api.Module
	ctx    context.Context
	funcs  map[string]api.Function

	nextID    uint32
	roots     map[uint32]*root
	streams   map[uint32]*Stream
	current   uint32 // context of the callback that runs
	effective uint32 // set by proxy_set_effective_context, 0 = none
	depth     int

	initializing  bool // _initialize may do nothing but log
	failed        bool
	wantsRebuild  bool
	stopIteration bool     // a local response was sent: whatever the callback returns, iteration stops
	after         []func() // continue and local replies wait for the guest to return

	metrics    map[uint32]string // names by the VM's own numbers
	nextMetric uint32
	stat       *CallStat // of the host call that runs

	callbackName string // of the callback that runs, without "proxy_"
}

type vmKey struct{}

// memory is a VM's, of which all is reserved at the start, so that it grows without being copied.
type memory []byte

func reserve(_, most uint64) experimental.LinearMemory {
	m, err := syscall.Mmap(-1, 0, int(most), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		panic(err)
	}
	return memory(m)
}

func (m memory) Reallocate(size uint64) []byte { return m[:size] }

func (m memory) Free() {
	if err := syscall.Munmap(m); err != nil {
		panic(err)
	}
}

// newVM instantiates code and runs _initialize, with its own randomness and the simulated clock.
func (g *Gateway) newVM(w *Worker, c *code) (*vm, error) {
	g.vms++
	v := &vm{
		gw: g, worker: w, code: c, funcs: map[string]api.Function{}, initializing: true,
		nextID: 1, roots: map[uint32]*root{}, streams: map[uint32]*Stream{}, metrics: map[uint32]string{},
	}
	v.ctx = experimental.WithMemoryAllocator(context.WithValue(g.ctx, vmKey{}, v),
		experimental.MemoryAllocatorFunc(reserve))
	out := &stderr{record: &g.record, thread: w.name}
	conf := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithStdout(out).WithStderr(out).WithRandSource(g.randomness(g.vms)).
		WithWalltime(func() (int64, int32) {
			return g.Now().Unix(), int32(g.Now().Nanosecond())
		}, sys.ClockResolution(1)).
		WithNanotime(func() int64 { return g.monotonic() }, sys.ClockResolution(1)).
		WithNanosleep(func(int64) {})
	mod, err := c.runtime.InstantiateModule(v.ctx, c.compiled, conf)
	if err != nil {
		return nil, fmt.Errorf("higresshost: instantiate: %w", err)
	}
	v.mod, v.initializing, g.alive[v] = mod, false, true
	return v, nil
}

// randomness is what random_get draws in the n-th VM: repeatable, and different from every other VM's.
func (g *Gateway) randomness(n int) *rand.ChaCha8 {
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("%d/%d", g.opts.Seed, n))
	return rand.NewChaCha8(seed)
}

// monotonic is nanoseconds since a fixed time before the start: Go assumes that a clock at zero does not work.
func (g *Gateway) monotonic() int64 { return int64(g.passed + time.Hour) }

// callback calls an export in a context, then does what the guest left to be done after its return. stopped reports
// that a local response was sent during the call. A trap, or a VM that has trapped before, returns zero.
func (v *vm) callback(id uint32, name string, args ...uint64) (result uint64, stopped bool) {
	result = v.call(id, name, args...)
	stopped = v.stopIteration
	v.stopIteration = false
	v.runAfter()
	return result, stopped
}

func (v *vm) call(id uint32, name string, args ...uint64) uint64 {
	f := v.export(name)
	if v.failed || f == nil {
		return 0
	}
	if v.depth > 0 {
		panic("higresshost: " + name + " called while the same VM runs; OnHostCall must not drive the calling worker")
	}
	current, effective, running := v.current, v.effective, v.callbackName
	v.current, v.effective, v.callbackName = id, 0, strings.TrimPrefix(name, "proxy_")
	v.gw.count(Call{Callback: v.callbackName})
	v.depth++
	v.gw.running++
	res, err := f.Call(v.ctx, append([]uint64{uint64(id)}, args...)...)
	v.gw.running--
	v.depth--
	v.current, v.effective, v.callbackName = current, effective, running
	if err != nil {
		v.trap(id, name, err)
		return 0
	}
	if len(res) == 0 {
		return 0
	}
	return res[0]
}

func (v *vm) export(name string) api.Function {
	f, ok := v.funcs[name]
	if !ok && v.mod != nil {
		f = v.mod.ExportedFunction(name)
		v.funcs[name] = f
	}
	return f
}

func (v *vm) runAfter() {
	for len(v.after) > 0 {
		fn := v.after[0]
		v.after = v.after[1:]
		fn()
	}
}

// trap ends the VM. The stream whose callback trapped gets 503 and so does every stream that waits for its response; a
// stream in the middle of its response is cut; one that the plugin holds hangs. None of them is logged, done or
// deleted.
func (v *vm) trap(id uint32, name string, err error) {
	v.fail(fmt.Sprintf("%s trapped: %v", name, err))
	for _, s := range v.ordered() {
		s.Lose(s.id == id)
	}
}

func (v *vm) fail(why string) {
	v.failed = true
	v.after = nil
	v.gw.log(v.worker.name, LogHost, why)
}

func (v *vm) ordered() []*Stream {
	var out []*Stream
	for _, r := range v.worker.roots {
		if r.vm == v {
			out = append(out, r.streams...)
		}
	}
	return out
}

// kill frees the instance; nothing calls into it any more.
func (v *vm) kill() error {
	v.failed = true
	delete(v.gw.alive, v)
	return v.mod.Close(v.ctx)
}

// context returns the root and the stream that a host call acts on: of the effective context if it still exists, else
// of the running one. The stream is nil in a root context.
func (v *vm) context() (*root, *Stream) {
	for _, id := range []uint32{v.effective, v.current} {
		if s := v.streams[id]; s != nil {
			return s.root, s
		}
		if r := v.roots[id]; r != nil {
			return r, nil
		}
	}
	return nil, nil
}

func (v *vm) read(ptr, size uint32) []byte {
	b, ok := v.mod.Memory().Read(ptr, size)
	if !ok {
		panic(fmt.Sprintf("higresshost: the guest passed %d bytes at %#x, outside of its memory", size, ptr))
	}
	v.stat.Bytes += int(size)
	return append([]byte(nil), b...) // the guest's memory moves when it grows
}

func (v *vm) str(ptr, size uint32) string { return string(v.read(ptr, size)) }

// give copies b into memory that the guest allocates and writes its address and size to the guest's two result
// pointers. As in the gateways, an export malloc goes before proxy_on_memory_allocate.
func (v *vm) give(b []byte, ptrTo, sizeTo uint32) status {
	v.stat.Bytes += len(b)
	var ptr uint32
	if len(b) > 0 {
		allocate := v.export("malloc")
		if allocate == nil {
			allocate = v.export("proxy_on_memory_allocate")
		}
		res, err := allocate.Call(v.ctx, uint64(len(b)))
		if err != nil {
			panic(err)
		}
		ptr = uint32(res[0])
		v.mod.Memory().Write(ptr, b)
	}
	v.put32(ptrTo, ptr)
	v.put32(sizeTo, uint32(len(b)))
	return statusOK
}

func (v *vm) put32(at, value uint32) {
	if !v.mod.Memory().WriteUint32Le(at, value) {
		panic(fmt.Sprintf("higresshost: the guest wants an answer at %#x, outside of its memory", at))
	}
}
