package lb

// Zone is where an endpoint, or the gateway, is. "" is not known.
type Zone struct{ Region, Name string }

// apart says whether two zones are known to differ.
func (z Zone) apart(o Zone) bool { return differ(z.Region, o.Region) || differ(z.Name, o.Name) }

func differ(a, b string) bool { return a != "" && b != "" && a != b }
