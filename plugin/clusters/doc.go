// Package clusters is what one VM knows of each cluster: its policies, health, engines, caches and push limits, what of
// that it shares with the other VMs, its queue, and how many requests were retries. It knows no request.
package clusters
