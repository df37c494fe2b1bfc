package main

import (
	"encoding/binary"
	"errors"

	"github.com/warmgate/warmgate/lb"
)

// Keys of shared memory besides the store's. On Higress all plugins share one memory, so each carries our name.
const (
	keyEjections  = "warmgate/2/ejections"
	keyConfigured = "warmgate/1/configured/"
	keyLeader     = "warmgate/2/leader" // of those who read and write this form of the digest
	keyDigest     = "warmgate/2/digest"
	keyFresh      = "warmgate/2/fresh" // until when the digest is trusted
	keyScraper    = "warmgate/1/scraper"
	keyMetered    = "warmgate/1/metered"
	keyReadings   = "warmgate/1/readings/" // and the name of the cluster
	keyShares     = "warmgate/1/shares/"   // and the name of the cluster
	keySecret     = "warmgate/1/secret"
)

// prepare creates the keys that several VMs write. The gateway starts a configuration in the main thread's VM before
// it does so in any worker's, so no worker can be writing yet.
func prepare(kv lb.KV) error {
	for _, key := range []string{keyLeader, keyEjections, keyScraper, keyMetered} {
		if _, _, err := kv.Get(key); errors.Is(err, lb.ErrNotFound) {
			if err := kv.Set(key, []byte{0}, 0); err != nil {
				return err
			}
		}
	}
	return lb.Prepare(kv)
}

// isConfigured says whether the plugin of this name has had a good configuration since the gateway started. A refused
// configuration is tried in a VM of its own, which knows nothing of the past.
func isConfigured(kv lb.KV, name string) bool {
	_, _, err := kv.Get(keyConfigured + name)
	return err == nil
}

func markConfigured(kv lb.KV, name string) {
	// When this fails, a bad configuration is taken for the first one: requests pass, only natively.
	_ = kv.Set(keyConfigured+name, []byte{1}, 0)
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
