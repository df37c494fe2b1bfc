package config

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/price"
)

// API is where the admission API is answered. The zero value: there is none.
type API struct {
	Path     string        // that all its paths begin with, without a slash at the end
	Token    policy.Secret // who calls it has
	LeaseTTL time.Duration // how long a task lives without a heartbeat
	MaxHint  time.Duration // how long a caller is told to wait at most
	Only     bool          // requests that are no calls are left to the gateway
	Callers  []Caller      // who have tokens of their own, in the order in which they are written
}

// Caller is one that calls the admission API with a token of its own.
type Caller struct {
	Name  string
	Token policy.Secret
	Share float64 // part of each target's slots up to which its tasks may fill it
	Class string  // that its tasks have, "" for any
	// SetsLimits: it may set limits of targets at run time
	SetsLimits bool
}

// SetsLimits reports whether a caller may set limits of targets at run time.
func (a *API) SetsLimits() bool {
	return slices.ContainsFunc(a.Callers, func(c Caller) bool { return c.SetsLimits })
}

// Slots returns up to how many requests in flight the caller's tasks may fill a target with a cap, 0 for none.
func (c *Caller) Slots(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	const rounding = 1e-6 // more than products with a share are wrong by
	return max(1, int64(float64(limit)*c.Share+rounding))
}

// Tokens returns the tokens that callers may send: the one that is nobody's, "" for none, and that of each caller.
func (a *API) Tokens() []string {
	list := []string{string(a.Token)}
	for i := range a.Callers {
		list = append(list, string(a.Callers[i].Token))
	}
	return list
}

// Inspect is where the gateway shows what it knows. The zero value: nowhere.
type Inspect struct {
	Path  string        // that all its paths begin with, without a slash at the end
	Token policy.Secret // who looks has
}

// Clusters is what is chosen among with lb_type cluster.
type Clusters struct {
	List   []string // names of the clusters, each once
	Header string   // in lower case; by its value the route takes the cluster
	Hashed bool     // cluster_hash: a request without the key of a session is refused
	// First are the clusters that aggregate ones in the list send requests to first, by the names of these.
	First map[string]string
	// Endpoint is how an endpoint of the chosen cluster is chosen; nil: by the gateway.
	Endpoint *Config
}

// nested is lb_config.endpoint until the part is checked.
type nested struct {
	at    string
	value value
}

// Models is how it is read which models the endpoints of a cluster have.
type Models struct {
	Cluster  string        // through which the lists are requested, "" if none are read
	Path     string        // of an endpoint's list
	Interval time.Duration // between two readings

	RefuseUnknown bool // a request for a model that no endpoint lists is refused
	Affinity      bool // the requests for a model stay on few endpoints
}

// Engines is how metrics of engines are weighed, and how they are scraped.
type Engines struct {
	engines.Config

	Engine   string        // engine whose names are expected; "auto": any known one
	Path     string        // of the page of metrics
	Port     int           // of that page, 0 for the endpoint's own
	Interval time.Duration // between two scrapes of an endpoint
	ORCA     bool          // load reports in responses are requested and read
	Cluster  string        // stock Envoy: name of the cluster through which pages are scraped

	id uint64 // see MetricsID
}

// Queue is how requests wait for which no endpoint has room.
type Queue struct {
	MaxWait   time.Duration // how long a request waits at most; 0: none waits
	FromZero  bool          // a request waits, too, while its cluster has no endpoint
	MaxLength int           // how many requests of one cluster wait at most
	MaxBytes  int           // of the bodies of waiting requests that one gateway holds

	Order        Order
	Classes      []Class       // the highest first: by weight, those of equal weight by name
	ClassHeader  string        // contains the name of a request's class; "" for none
	DefaultClass string        // class of all other requests; "" for the last of Classes
	PriorityFrom []Source      // where the priority of a request is, the first that it has; empty: none has one
	FirstTurn    string        // class of those without a class that begin a conversation; "" for DefaultClass
	LaterTurn    string        // likewise, of those that continue one
	Aging        time.Duration // after which a class that others keep waiting is owed a part of the grants; 0: never

	Skip     int           // how many others a request may pass at an endpoint that has its prompt
	Patience time.Duration // how long it waits for a full endpoint that costs less than all that have room

	DeadlineHeader string  // contains how long the client waits for the whole answer; "" for none
	TenantHeader   string  // names the tenant; "" for none
	TenantMaxShare float64 // part of MaxLength that one tenant may take, above 0
	FairBy         FairBy  // who takes turns
	RetryBudget    int     // percent of requests that may be retries while requests wait
}

// Class is a class of requests, with its name.
type Class struct {
	lb.Class
	Name string

	FromPriority int // requests of this priority or a higher one are of this class; NoPriority: none is for it

	share float64 // part of the queue that other classes cannot take
}

const (
	maxPriority = 1_000_000 // from which requests are of a class, on either side of 0

	// NoPriority is more than any class takes requests from.
	NoPriority = maxPriority + 1
)

// FairBy is who takes turns within a class.
type FairBy uint8

// Who may take turns.
const (
	ByTenant  FairBy = iota // tenants
	BySession               // tenants, and the sessions of each
)

var fairByNames = []string{ByTenant: "tenant", BySession: "session"}

// String returns the name in the configuration.
func (f FairBy) String() string { return fairByNames[f] }

// UnmarshalText sets it to the one with the name.
func (f *FairBy) UnmarshalText(name []byte) error {
	i := slices.Index(fairByNames, string(name))
	if i < 0 {
		return errors.New("config: nobody takes turns by " + string(name))
	}
	*f = FairBy(i)
	return nil
}

// Order is how classes share what is served.
type Order uint8

// The orders of classes.
const (
	Weighted Order = iota // by their weights
	Strict                // a higher class goes first
)

var orderNames = []string{Weighted: "weighted", Strict: "strict"}

// String returns the order's name in the configuration.
func (o Order) String() string { return orderNames[o] }

// UnmarshalText sets the order to the one with the name.
func (o *Order) UnmarshalText(name []byte) error {
	i := slices.Index(orderNames, string(name))
	if i < 0 {
		return errors.New("config: unknown order " + string(name))
	}
	*o = Order(i)
	return nil
}

// Prices is what tokens cost. Its zero value: costs are not counted.
type Prices struct {
	Currency string // as in ISO 4217, "" without prices
	Table    price.Table
	Header   string // that names tenants in statistics and in the access log, "" if none does
}

// Enabled reports whether costs are counted.
func (p *Prices) Enabled() bool { return p.Currency != "" }

// ByModel reports whether models differ in what they cost: then bodies are read for the model.
func (p *Prices) ByModel() bool { return p.Table.Len() > 0 && !p.Table.IsUniform() }

// StoreKind is where work in flight is counted.
type StoreKind uint8

// The kinds of stores.
const (
	storeUnset StoreKind = iota // as long as a configuration is being parsed
	StoreLocal                  // in the memory of one gateway
	StoreRedis                  // over all gateways that use one Redis
)

var storeNames = []string{storeUnset: "", StoreLocal: "local", StoreRedis: "redis"}

// String returns the kind's name in the configuration.
func (k StoreKind) String() string { return storeNames[k] }

// UnmarshalText sets the kind to the one with the name.
func (k *StoreKind) UnmarshalText(name []byte) error {
	i := slices.Index(storeNames, string(name))
	if i < 0 {
		return errors.New("config: unknown store " + string(name))
	}
	*k = StoreKind(i)
	return nil
}

// Redis is where Redis is, and how to log in.
type Redis struct {
	ServiceFQDN string        // Higress: name of the service, with a suffix like .static or .dns
	ServicePort int           // Higress: not 0 once checked
	Cluster     string        // stock Envoy: name of the cluster that leads to Redis
	Username    string        // "" for the default user
	Password    string        // "" for none
	Timeout     time.Duration // Higress: of the connection
	Database    int
	Scope       string // name under which load is counted together, in place of the cluster's; "" for the cluster's
}

// HigressCluster returns the name that Higress gives to the service's cluster.
func (r Redis) HigressCluster() string {
	return "outbound|" + strconv.Itoa(r.ServicePort) + "||" + r.ServiceFQDN
}

// String names the server without its credentials, so that a Config printed by mistake shows no password.
func (r Redis) String() string {
	scope := ""
	if r.Scope != "" {
		scope = " scope " + strconv.Quote(r.Scope)
	}
	switch {
	case r.Cluster != "":
		return "redis cluster " + r.Cluster + " database " + strconv.Itoa(r.Database) + scope
	case r.ServiceFQDN != "":
		return "redis service " + r.ServiceFQDN + ":" + strconv.Itoa(r.ServicePort) + " database " +
			strconv.Itoa(r.Database) + scope
	}
	return "none"
}

// GoString is String, for the same reason.
func (r Redis) GoString() string { return r.String() }

// Regions is how requests are forwarded to other regions. Its zero value: there are none.
type Regions struct {
	Name     string // of this region; "" for none
	Peers    []Peer
	Cluster  string        // of this region's own servers
	Interval time.Duration // between two probes of a peer
	Buffer   int           // requests that may wait in a region that others still forward to
	Secret   policy.Secret // that all regions share
	Previous policy.Secret // the secret that some of them may still have; "" for none
	Allowed  []string      // names of the peers that requests may be forwarded to; nil: all
	Memory   int           // of the index of forwarded prompts, in bytes
	Header   string        // in lower case; by its value the route takes the cluster
	Gone     time.Duration // without an answer, until the servers of a peer are adopted
	Steady   time.Duration // of answers, until they are given back

	CachedFirst bool // requests go to the peer that has their prompt although an endpoint here is open
}

// Peer is another region.
type Peer struct {
	Name    string
	Cluster string        // that leads to its gateways
	RTT     time.Duration // of a round trip, until one was measured
	Forward string        // where requests for them are sent, if that is another one; "" for none
	Adopt   string        // cluster of its servers, which are served from here while its gateways are gone; "" for none
}

// Source is a place in a request where a text may be: the key of its session, or what it says of itself.
type Source struct {
	From SourceKind
	Name string   // of a header, in lower case, of a cookie, or of a query parameter
	Path []string // of a member of the body
}

// SourceKind is which part of a request that is.
type SourceKind uint8

// The parts of a request.
const (
	FromHeader SourceKind = iota
	FromCookie
	FromQuery
	FromBody
	FromClient // the client's address
)
