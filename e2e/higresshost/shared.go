package higresshost

import "fmt"

// SharedData is the process-wide key-value store of Proxy-Wasm. Higress gives its plugins no vm_id, so all plugins of a
// gateway live in this one namespace; it outlives VMs and configurations. A key cannot be deleted.
type SharedData struct {
	cells map[string]sharedCell
	cas   uint32
}

type sharedCell struct {
	value string
	cas   uint32
}

// Get returns the value and its version, and whether the key was ever set.
func (d *SharedData) Get(key string) (value string, cas uint32, ok bool) {
	c, ok := d.cells[key]
	return c.value, c.cas, ok
}

// Set stores value and reports whether it did. A cas of 0 always overwrites, and so does any cas on a missing key:
// creating is not a compare-and-swap.
func (d *SharedData) Set(key, value string, cas uint32) bool {
	if old, ok := d.cells[key]; ok && cas != 0 && cas != old.cas {
		return false
	}
	d.cas++
	if d.cas == 0 {
		d.cas++
	}
	d.cells[key] = sharedCell{value, d.cas}
	return true
}

// Keys returns the number of keys ever set.
func (d *SharedData) Keys() int { return len(d.cells) }

// violate records what a real host ignores but no plugin should do.
func (g *Gateway) violate(format string, args ...any) {
	g.violations = append(g.violations, fmt.Sprintf(format, args...))
}
