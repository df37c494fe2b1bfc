package core

import (
	"encoding/binary"
	"errors"

	"github.com/warmgate/warmgate/lb"
)

// Keys of shared memory besides the store's. On Higress all plugins share one memory, so each carries our name.
const (
	keyEjections = "warmgate/2/ejections"
	keyLastGood  = "warmgate/1/configured/" // and the name of the plugin: its past
	keyTolerated = "warmgate/1/taken/"      // and the name of the plugin: digests of bad first configurations
	keyLeader    = "warmgate/2/leader"      // of those who read and write this form of the digest
	keyDigest    = "warmgate/2/digest"
	keyFresh     = "warmgate/2/fresh" // until when the digest is trusted
	keyHung      = "warmgate/2/hung"  // the same while the admin interface does not answer
	keyScraper   = "warmgate/1/scraper"
	keyDemand    = "warmgate/1/metered"
	keySamples   = "warmgate/1/readings/" // and the name of the cluster
	keyShares    = "warmgate/1/shares/"   // and the name of the cluster
	keySecret    = "warmgate/1/secret"
	keySubsets   = "warmgate/1/subsets"
)

// prepare creates the keys that several VMs write. The gateway starts a configuration in the main thread's VM before
// it does so in any worker's, so no worker can be writing yet.
func prepare(kv lb.KV) error {
	for _, key := range []string{keyLeader, keyEjections, keyScraper, keyDemand} {
		if _, _, err := kv.Get(key); errors.Is(err, lb.ErrNotFound) {
			if err := kv.Set(key, []byte{0}, 0); err != nil {
				return err
			}
		}
	}
	return lb.Prepare(kv)
}

// ownSecret returns a secret that all VMs of the process have, and nobody else. The first VM draws it.
func ownSecret(kv lb.KV, random func() uint64) (secret [16]byte) {
	if val, _, err := kv.Get(keySecret); err == nil && len(val) == len(secret) {
		copy(secret[:], val)
		return secret
	}
	binary.LittleEndian.PutUint64(secret[:], random())
	binary.LittleEndian.PutUint64(secret[8:], random())
	// When this fails, this VM knows only the prompts that it has seen itself.
	_ = kv.Set(keySecret, secret[:], 0)
	return secret
}
