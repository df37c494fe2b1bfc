package prompt

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A claim changes only the tenant of the keys; nothing in the body changes the tenant.
func TestClaim(t *testing.T) {
	c := NewChainer(testSecret, testBlock)
	chain := func(salt string) []Block {
		return chainOf(t, `{"model":"m","cache_salt":"`+salt+`","messages":[{"role":"user","content":"`+strings.Repeat("x",
			10*testBlock)+`"}]}`)
	}
	free := chain("a")
	if len(free) < 3 {
		t.Fatalf("%d blocks", len(free))
	}
	for _, b := range free {
		if b.Tenant() != NoTenant {
			t.Fatalf("the key %x has a tenant before a claim", b.Key)
		}
	}
	for _, name := range []string{"", "a", "b"} {
		mine, salted := slices.Clone(free), chain("b")
		c.Claim(mine, name)
		c.Claim(salted, name)
		for i, b := range mine {
			if b.Tenant() == NoTenant || b.Tenant() != mine[0].Tenant() || b.Tenant() != salted[i].Tenant() {
				t.Errorf("%q: block %d belongs to %d, with another salt to %d", name, i, b.Tenant(), salted[i].Tenant())
			}
			if b.Key<<8 != free[i].Key<<8 || b.Key<<8 == salted[i].Key<<8 || b.End != free[i].End {
				t.Errorf("%q: block %d is %x, was %x, with another salt %x", name, i, b.Key, free[i].Key, salted[i].Key)
			}
		}
	}
}

// Tenants are spread over all tags, differently with another secret.
func TestClaimsAreSpread(t *testing.T) {
	const tenants = 255 * 20
	a, b := NewChainer(Secret("a"), testBlock), NewChainer(Secret("b"), testBlock)
	var count [256]int
	same := 0
	for i := range tenants {
		blocks := make([]Block, 2)
		a.Claim(blocks[:1], strconv.Itoa(i))
		b.Claim(blocks[1:], strconv.Itoa(i))
		count[blocks[0].Tenant()]++
		if blocks[0].Tenant() == blocks[1].Tenant() {
			same++
		}
	}
	for tag, n := range count {
		if tag == NoTenant && n != 0 || tag != NoTenant && (n < 3 || n > 50) {
			t.Errorf("%d of %d tenants have the tag %d", n, tenants, tag)
		}
	}
	if same > tenants/100 {
		t.Errorf("%d of %d tenants have the same tag with another secret", same, tenants)
	}
}
