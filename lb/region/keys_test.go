package region

import (
	"errors"
	"testing"
	"time"
)

// What gateways with the new secret, the old one or both tell each other is understood wherever they have one in
// common, and nowhere else. Gateways that know of one text only are among those with one secret.
func TestKeysOfTwoSecrets(t *testing.T) {
	const before, after, subject = "the secret of before", "the secret of after", "POST /v1/chat/completions"
	const now = 24 * time.Hour
	old, both, changed := KeysOf(before, ""), KeysOf(after, before), KeysOf(after, "")
	stranger := KeysOf("a stranger's secret", "another of a stranger")
	for _, c := range []struct {
		name     string
		from, to Keys
		known    bool
	}{
		{"old to old", old, old, true},
		{"old to both", old, both, true},
		{"old to new", old, changed, false},
		{"both to old", both, old, true},
		{"both to both", both, both, true},
		{"both to new", both, changed, true},
		{"new to old", changed, old, false},
		{"new to both", changed, both, true},
		{"new to new", changed, changed, true},
		{"stranger to both", stranger, both, false},
		{"both to stranger", both, stranger, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := c.from.SignProbe("us", "eu", now, 7)
			route, by, err := c.to.ReadProbe(texts, "eu", now)
			if (err == nil) != c.known || c.known && (route != Route{"us", "eu", now, 7}) {
				t.Fatalf("probe: %+v, %v", route, err)
			}
			if c.known {
				answer := by.SignAnswer(&route, now, State{Open: 3}, nil)
				if a, err := c.from.ReadAnswer(answer, "us", now); err != nil || a.Open != 3 {
					t.Errorf("answer: %+v, %v", a, err)
				}
			}
			hop := c.from.SignHop("us", "eu", now, subject)
			if h := c.to.ReadHop(hop, "eu", now, subject); h.Forwarded() != c.known || (h.Forged == nil) != c.known {
				t.Errorf("hop: %+v", h)
			}
		})
	}
	if _, err := both.ReadAnswer("", "us", now); !errors.Is(err, ErrMalformed) {
		t.Errorf("no answer: %v", err)
	}
	if _, _, err := both.ReadProbe(Texts{}, "eu", now); !errors.Is(err, ErrMalformed) {
		t.Errorf("no probe: %v", err)
	}
}

// While there is one secret there is one text, where gateways without a second secret look for it. With two, the first
// text is one that a gateway reads which knows of no second text and has the old secret.
func TestTextsOfTwoSecrets(t *testing.T) {
	one, two := KeysOf("the only secret", ""), KeysOf("the new secret", "the only secret")
	if got := one.SignProbe("us", "eu", time.Hour, 1); got.New != "" || got.Text == "" {
		t.Errorf("with one secret %+v", got)
	}
	texts := two.SignHop("us", "eu", time.Hour, "GET /")
	if h := one.Key.ReadHop(texts.Text, "eu", time.Hour, "GET /"); !h.Forwarded() {
		t.Errorf("the first text: %+v", h)
	}
	if h := one.Key.ReadHop(texts.New, "eu", time.Hour, "GET /"); h.Signed() {
		t.Errorf("the second text: %+v", h)
	}
}

// Of several texts the one counts that tells most: forwarded here just now, then signed, then forged.
func TestTextsThatDiffer(t *testing.T) {
	both, now := KeysOf("the secret of after", "the secret of before"), 24*time.Hour
	fresh, late := both.SignHop("us", "eu", now, "GET /"), both.SignHop("us", "eu", now-time.Hour, "GET /")
	for _, c := range []struct {
		texts             Texts
		signed, forwarded bool
	}{
		{Texts{fresh.Text, "x"}, true, true},
		{Texts{"x", fresh.New}, true, true},
		{Texts{"", fresh.Text}, true, true},
		{Texts{fresh.Text, late.New}, true, true},
		{Texts{late.Text, fresh.New}, true, true},
		{Texts{late.Text, "x"}, true, false},
		{Texts{"x", late.Text}, true, false},
		{Texts{"x", "y"}, false, false},
		{Texts{}, false, false},
	} {
		h := both.ReadHop(c.texts, "eu", now, "GET /")
		if h.Signed() != c.signed || h.Forwarded() != c.forwarded {
			t.Errorf("%+v: %+v", c.texts, h)
		}
	}
	old := both.SignProbe("us", "eu", now-time.Hour, 1)
	if from, _, err := both.ReadProbe(Texts{old.Text, "x"}, "eu", now); !errors.Is(err, ErrStale) || from.From != "us" {
		t.Errorf("an old probe: %+v, %v", from, err)
	}
}
