package lb

// Zone is the location of an endpoint or of the gateway. An empty part is unknown.
type Zone struct{ Region, Name string }

// Differs reports whether two zones are known to differ: an unknown part differs from nothing.
func (z Zone) Differs(o Zone) bool {
	return knownToDiffer(z.Region, o.Region) || knownToDiffer(z.Name, o.Name)
}

func knownToDiffer(a, b string) bool { return a != "" && b != "" && a != b }
