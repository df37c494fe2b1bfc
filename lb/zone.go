package lb

// Zone is where an endpoint, or the gateway, is. "" is not known.
type Zone struct{ Region, Name string }

// differs says whether two zones are known to differ.
func (z Zone) differs(o Zone) bool {
	return knownToDiffer(z.Region, o.Region) || knownToDiffer(z.Name, o.Name)
}

func knownToDiffer(a, b string) bool { return a != "" && b != "" && a != b }
