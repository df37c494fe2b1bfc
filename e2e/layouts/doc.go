// Package layouts runs the plugin in the layouts of a gateway that docs/compatibility.md lists: protocols, types of
// clusters, filters in front of the plugin and behind it, retries, hedges, mirrors, and a hot restart. One Envoy of
// each version serves all of them, each by a route and a cluster of its own.
//
// The same is checked in each layout: a request is answered as it is without the plugin, it is counted once under the
// reason that is expected, the load is spread, and every lease comes back.
package layouts
