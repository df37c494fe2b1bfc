// Package process is what the VMs of a process have in common: the names of values in shared memory, and tasks that one
// of them does for all.
package process

import (
	"errors"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// The keys of shared memory, besides the embedded store's and the claims of redisclient to load a script. On Higress
// all plugins share one memory, so each begins with our name. The number is the version of the value's format.
const (
	KeyEjections = "warmgate/2/ejections"   // plugin/clusters/exchange.go
	KeyFacts     = "warmgate/1/models"      // plugin/clusters/exchange.go
	KeyLastGood  = "warmgate/1/configured/" // and the name of the plugin: plugin/vm/lastgood.go
	KeyTolerated = "warmgate/1/taken/"      // and the name of the plugin: digests of bad first configurations
	KeySecret    = "warmgate/1/secret"      // of this process
	KeyDemand    = "warmgate/1/metered"     // plugin/engines/demand.go
	KeySamples   = "warmgate/3/readings/"   // and the name of the cluster: plugin/engines/samples.go
	KeyLists     = "warmgate/2/listed/"     // and the name of the cluster: plugin/engines/lists.go
	KeyScraper   = "warmgate/1/scraper"     // leader of scrapes: plugin/endpoints/scraper.go
	KeyShares    = "warmgate/1/shares/"     // and the name of the cluster: plugin/clusters/shares.go
	KeyLeader    = "warmgate/2/leader"      // leader of polls of the admin interface, with this format of the digest
	KeyDigest    = "warmgate/2/digest"      // endpoints: plugin/endpoints/admin.go
	KeyFresh     = "warmgate/2/fresh"       // until when the digest is trusted
	KeyHung      = "warmgate/2/hung"        // the same while the admin interface does not answer
	KeyHurry     = "warmgate/1/hurry"       // until when the leader polls at every tick
	KeyRegions   = "warmgate/2/regions/"    // and the name of a region: plugin/regions/regions.go
	KeyBreakers  = "warmgate/1/breakers"    // circuit breakers of clusters: plugin/endpoints/admin.go
	KeyAdmission = "warmgate/1/admission/"  // and the path of an admission API: plugin/admission/advice.go
	KeyOverrides = "warmgate/1/overrides"   // plugin/admission/limits.go
	KeySubsets   = "warmgate/1/subsets"     // plugin/endpoints/subsets.go
	KeyLimits    = "warmgate/1/limits/"     // and the name of the cluster: plugin/clusters/shares.go
	KeyPaces     = "warmgate/1/paces/"      // likewise
	KeyFirsts    = "warmgate/1/firsts/"     // likewise
	KeyWatch     = "warmgate/1/watch"       // who watches, and what VMs tell them: plugin/inspect/watch.go
	KeyClusters  = "warmgate/1/clusters/"   // and the number of a VM in there: plugin/inspect/facts.go
	KeyDecisions = "warmgate/1/decisions/"  // likewise: plugin/inspect/ring.go
	KeyGainer    = "warmgate/1/gainer"      // who says what was gained: plugin/gains
	KeyFlights   = "warmgate/1/flights"     // what it does so from: lb/gains/recorder.go
)

// KeyBackend is the key of the name of the cluster that leads to the engines' metrics, as a request has found it.
const KeyBackend = "warmgate/1/backend"

// Prepare creates the keys that several VMs write and whose first value must not be lost. The gateway starts a
// configuration in the main thread's VM before it does so in any worker's, so no worker can be writing yet.
func Prepare(kv lb.KV) error {
	for _, key := range []string{
		KeyLeader, KeyEjections, KeyFacts, KeyScraper, KeyDemand, KeyWatch, KeyGainer, KeyFlights, KeyOverrides,
	} {
		if _, _, err := kv.Get(key); errors.Is(err, lb.ErrNotFound) {
			if err := kv.Set(key, []byte{0}, 0); err != nil {
				return err
			}
		}
	}
	return memstore.Prepare(kv)
}

// OwnSecret returns a secret that only the VMs of this process have. The first VM draws it.
func OwnSecret(kv lb.KV, random func() uint64) (secret [16]byte) {
	if val, _, err := kv.Get(KeySecret); err == nil && len(val) == len(secret) {
		copy(secret[:], val)
		return secret
	}
	wire.PutUint64(secret[:], 0, random())
	wire.PutUint64(secret[:], 8, random())
	// If this fails, this VM finds only the prompts that it has recorded itself.
	_ = kv.Set(KeySecret, secret[:], 0)
	return secret
}
