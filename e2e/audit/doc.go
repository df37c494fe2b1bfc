// Package audit checks, on a running gateway, that all parties count the same in flight: the plugin's totals, the model
// servers' own counts, Envoy's active requests and, where they are known, the clients' open streams.
//
// A [Site] is a gateway with simulated servers behind it, [Traffic] and [Streams] load it, [Site.Agree] and
// [Site.Drained] are the audits, and a [Watch] looks all the time for what must never be seen: a count beyond what was
// ever sent, a total that had to be corrected, a panic, a lost VM. The totals are in turn compared with the leases,
// once a second, by the plugin itself: warmgate_store_corrected_total counts the differences it finds and must stay 0.
package audit
