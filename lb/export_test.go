package lb

// RemoteIDs returns how many requests have another id in the remote store.
func RemoteIDs(s *FallbackStore) int { return len(s.remoteIDs) }
