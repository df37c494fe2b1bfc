// Package simulate replays a load against simulated engines in virtual time, with the policies and the embedded store
// that the plugin has: a day of a thousand engines takes minutes. It answers which policy serves a load best, and how
// many engines a load needs.
//
// A run has a [Load], which says who sends what when, engines (package engine) in a [Layout], and a [Contender] that
// chooses among them: a configuration of the plugin, or a policy of the gateway's own. One event after the other
// happens: a request comes, an engine ends a step, metrics are read, waiting requests are looked at. The same run with
// the same seed gives the same result: to the last digit on processors of one kind, which round alike.
//
// What is simulated of the plugin is one VM of each gateway with the embedded store. Requests have no text: what a
// policy sees of a prompt is cut from its parts as package prompt cuts text. Networks take no time but between regions,
// and neither engines nor gateways fail.
package simulate
