package higresshost

import "time"

// Profile is the host that a Gateway plays.
type Profile int

// The profiles. Higress22 is the zero value.
const (
	// Higress22 is gateway 2.2.x on Envoy 1.36: an override host is strict, so a host that vanished or turned unhealthy
	// gives 503 UH, and a buffering body callback sees the newest frame.
	Higress22 Profile = iota
	// Higress21 is gateway 2.1.x on Envoy 1.27: an unusable override host falls back to the cluster's own balancing,
	// and a buffering body callback sees everything but the newest frame, so that over HTTP/2 the last frame of a
	// request stays unseen.
	Higress21
	// StockEnvoy offers no Higress call, knows no ABI 0.2.100 and gives route_name and cluster_name only under xds.
	StockEnvoy
)

// String returns the name used in errors.
func (p Profile) String() string {
	switch p {
	case Higress21:
		return "Higress 2.1"
	case StockEnvoy:
		return "stock Envoy"
	default:
		return "Higress 2.2"
	}
}

func (p Profile) higress() bool        { return p != StockEnvoy }
func (p Profile) strictOverride() bool { return p == Higress22 }
func (p Profile) staleBuffer() bool    { return p == Higress21 }

// Options describe a gateway. Only Wasm is required.
type Options struct {
	Wasm    []byte  // the compiled plugin
	Config  string  // the plugin's configuration, as the control plane sends it
	Profile Profile // the host to play
	Workers int     // worker threads; 0 = 1. A main thread that only ticks is always there.

	Route   string // route of new streams; "" = "route"
	Cluster string // cluster of new streams; "" = "llm"
	// ClusterHeader names the header by whose value the route takes the cluster; "" for a route to Cluster. Without the
	// header it takes Cluster.
	ClusterHeader string

	// BufferLimit is the listener's per-connection buffer limit in bytes: a held body above it ends in 413. 0 = 32 KiB,
	// Higress's default.
	BufferLimit int
	// FailOpen is the plugin's fail strategy: with a broken VM, streams pass without the plugin instead of getting 503.
	FailOpen bool
	// AllowStopIteration is stock Envoy's allow_on_headers_stop_iteration. Higress decides by ABI version alone.
	AllowStopIteration bool

	// LogLast is the order in which Envoy ends a request over HTTP/3: it logs the request after it has deleted the
	// stream's context.
	LogLast bool

	// Seed makes the random numbers that guests draw repeatable; every VM draws others.
	Seed uint64
	// Now is the simulated time of the start; zero = 2026-01-01 00:00 UTC.
	Now time.Time
}

const (
	defaultBufferLimit = 32 << 10
	defaultRoute       = "route"
	defaultCluster     = "llm"
)

func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Route == "" {
		o.Route = defaultRoute
	}
	if o.Cluster == "" {
		o.Cluster = defaultCluster
	}
	if o.BufferLimit == 0 {
		o.BufferLimit = defaultBufferLimit
	}
	if o.Now.IsZero() {
		o.Now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return o
}
