package prompt

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// long returns what is kept of a body that comes in the parts that end there.
func long(keep int, body []byte, ends ...int) *LongBody {
	l := NewLongBody(keep, testSecret)
	begin := 0
	for _, end := range append(ends, len(body)) {
		l.Read(body[begin:end])
		begin = end
	}
	return l
}

// longChain returns the chain of a body of which so much is kept, "" for none.
func longChain(t *testing.T, body []byte, keep int) []Block {
	t.Helper()
	l := long(keep, body)
	short, whole := l.Body()
	if !l.Ended() {
		t.Fatal("a body is not read to its end")
	}
	_, parts, err := ReadAs(Unknown, short, whole)
	if err != nil {
		t.Fatal(err)
	}
	blocks, _ := NewChainer(testSecret, 512).Chain(short, &parts)
	return slices.Clone(blocks)
}

// The members of a request mean the same wherever they stand, however long the prompt is.
func TestLongBodyKeepsWhatStandsBehind(t *testing.T) {
	const keep = 4 << 10
	text := strings.Repeat("many words ", 2000)
	front := `{"model":"m","cache_salt":"s","max_tokens":7,"stream":true,"tools":[{"name":"t"}],"metadata":{"user_id":"u"},` +
		`"messages":[{"role":"user","content":"` + text + `"}]}`
	behind := `{"messages":[{"role":"user","content":"` + text + `"}],"metadata":{"user_id":"u"},"tools" : [{"name":"t"}],` +
		`"stream":true,"\u006dax_tokens":7,"cache_salt":"s","model":"m"}`
	want, _ := Scan([]byte(front), true)
	for _, body := range []string{front, behind} {
		short, whole := long(keep, []byte(body)).Body()
		info, parts, err := Read(short, whole)
		if err != nil || whole || info.MaxTokens != want.MaxTokens || !info.Stream || parts.ModelName(short) != "m" {
			t.Errorf("%.40s: %+v, %v, of model %s", body, info, err, parts.ModelName(short))
		}
		if user, _ := MemberText(short, []string{"metadata", "user_id"}); user != "u" {
			t.Errorf("%.40s: the session is %q", body, user)
		}
	}
	a, b := longChain(t, []byte(front), keep), longChain(t, []byte(behind), keep)
	if len(a) < 4 || !slices.Equal(a, b) {
		t.Errorf("%d of %d blocks are the same", common(t, a, b), len(a))
	}
	for _, other := range []string{
		strings.Replace(behind, `"model":"m"`, `"model":"n"`, 1), strings.Replace(behind, `"s"`, `"r"`, 1),
		strings.Replace(behind, `"t"`, `"d"`, 1),
	} {
		if n := common(t, a, longChain(t, []byte(other), keep)); n > 0 {
			t.Errorf("%s: %d blocks are the same", other[len(other)-60:], n)
		}
	}
}

// A body that is kept to its end is the same request.
func TestLongBodyOfAShortOne(t *testing.T) {
	for _, test := range scanTests {
		if !json.Valid([]byte(test.body)) || len(test.body) > maxOther {
			continue
		}
		short, whole := long(1<<20, []byte(test.body)).Body()
		got, _, err := Read(short, whole)
		want, _, wantErr := Read([]byte(test.body), true)
		if got != want || err != wantErr {
			t.Errorf("%s: %+v, %v, want %+v, %v", test.name, got, err, want, wantErr)
		}
	}
}

// What is cut is the first text in the order of a prompt that does not fit: what follows it is not in the chain.
func TestLongBodyIsCutInOrder(t *testing.T) {
	const keep = 8 << 10
	text := func(word string) string { return strings.Repeat(word+" ", 4000) }
	tools := `"tools":[` + strings.Repeat(`{"name":"a tool"},`, 1000) + `{}]`
	messages := `"messages":[{"role":"user","content":"` + text("word") + `"}]`
	short, whole := long(keep, []byte(`{`+messages+`,`+tools+`,"model":"m"}`)).Body()
	if _, parts, err := Read(short, whole); err != nil || whole || parts.cutField != fieldTools {
		t.Errorf("cut in field %d, %v: %s", parts.cutField, err, short)
	}
	a := longChain(t, []byte(`{`+messages+`,`+tools+`}`), keep)
	b := longChain(t, []byte(`{`+strings.ReplaceAll(messages, "word", "text")+`,`+tools+`}`), keep)
	if len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("behind tools that are cut, %d of %d blocks are the same", common(t, a, b), len(a))
	}
}

// Of a body that was made to fill memory, or to take time, little is kept, and it is not matched.
func TestLongBodyIsBounded(t *testing.T) {
	const keep = 16 << 10
	for name, body := range map[string]string{
		"a long name":    `{"model":"` + strings.Repeat("m", 1<<20) + `"}`,
		"many members":   `{"a":1` + strings.Repeat(`,"some name":"and text"`, 1<<16) + `}`,
		"tiny members":   `{"a":1` + strings.Repeat(`,"b":[1,2]`, 1<<17) + `}`,
		"many names":     `{"n":1` + strings.Repeat(`,"n":1`, 1<<17) + `,"model":"m"}`,
		"many texts":     `{"text":1` + strings.Repeat(`,"text":1`, 1<<17) + `}`,
		"a long key":     `{"` + strings.Repeat("k", 1<<20) + `":1}`,
		"only brackets":  strings.Repeat(`[`, 1<<20),
		"brackets":       `{"messages":` + strings.Repeat(`[`, 1<<20),
		"a long text":    `{"messages":["` + strings.Repeat("x", 1<<20),
		"several texts":  `{"prompt":"` + strings.Repeat("x", 1<<20) + `","system":"` + strings.Repeat("x", 1<<20) + `"`,
		"a long unknown": `{"messages":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		l := long(keep, []byte(body))
		if most := 2 * (2*keep + 2*smallBytes + 2*maxLongKey); l.Kept() > most {
			t.Errorf("%s: %d bytes are kept, want %d at most", name, l.Kept(), most)
		}
		short, whole := l.Body()
		if _, _, err := Read(short, whole); err != nil && l.Ended() {
			t.Errorf("%s: %v: %.60s", name, err, short)
		}
		if want := name == "a long key" || name == "a long unknown"; l.Ended() != want {
			t.Errorf("%s: read to its end: %v", name, l.Ended())
		}
	}
}

// A body with a relevant key twice is ambiguous, however much is behind that.
func TestLongBodyThatIsAmbiguous(t *testing.T) {
	text := `"` + strings.Repeat("x", 1<<20) + `"`
	for _, body := range []string{
		`{"model":1,"model":` + text + `}`, `{"n":1,"n":1,"n":1}`, `{"text":` + text + `,"t\u0065xt":1}`,
		`{"tools":[` + text + `],"tools":[],"messages":[]}`, `{"messages":[],"messages":[` + text + `]}`,
	} {
		l := long(16<<10, []byte(body))
		if _, _, err := Read(l.Body()); err != ErrAmbiguous || l.Ended() {
			t.Errorf("%.30s: %v, read to its end: %v", body, err, l.Ended())
		}
	}
}

// A conversation that is written with its tools last has the same blocks, whatever is kept of it.
func TestLongBodyOfAnyConversation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConversation(rt)
		c.turns = append(c.turns, turn{"user", []string{words(1, 300)}})
		body := []byte(c.write(rt))
		whole := chainOf(t, string(body))
		short, all := long(rapid.IntRange(100, 2000).Draw(rt, "keep"), body).Body()
		_, parts, err := Read(short, all)
		if err != nil {
			rt.Fatalf("%s: %v", short, err)
		}
		blocks, _ := NewChainer(testSecret, testBlock).Chain(short, &parts)
		if n := common(t, blocks, whole); n < len(blocks) {
			rt.Fatalf("%s: %d of %d blocks are those of all", short, n, len(blocks))
		}
	})
}

// FuzzLongBody reads a body in other parts, with the same result, and a short one as [Read] does.
func FuzzLongBody(f *testing.F) {
	f.Add([]byte(`{"model":"a","messages":[{"role":"user","content":"a \"\\ \u0041"}],"max_tokens":5 , "tools":[] }`), 7, 30)
	f.Add([]byte(`{"a":1,"m\u006fdel":"b","n":2}`), 2, 9)
	f.Add([]byte(`{"prompt":"\\`), 12, 12)
	picture := strings.Repeat("x", minPicture+100)
	f.Add([]byte(`{"input":[{"data":"`+picture+`"}],"messages":["`+picture+`","data:;base64,`+picture+`"]}`), 3000, 9000)
	f.Fuzz(func(t *testing.T, body []byte, one, other int) {
		const keep = 64
		a, b := uint(one)%uint(len(body)+1), uint(other)%uint(len(body)+1)
		l := long(keep, body)
		want, whole := l.Body()
		again := long(keep, body, int(min(a, b)), int(max(a, b)))
		got, all := again.Body()
		if !bytes.Equal(got, want) || all != whole || again.Ended() != l.Ended() || again.Skipped() != l.Skipped() {
			t.Fatalf("%q cut at %d and %d: %q, %v, want %q, %v", body, a, b, got, all, want, whole)
		}
		if !json.Valid(body) || !l.Ended() {
			return
		}
		short, whole := long(1<<20, body).Body()
		gotInfo, _, err := Read(short, whole)
		wantInfo, _, wantErr := Read(body, true)
		if gotInfo != wantInfo || err != wantErr {
			t.Fatalf("%q: %+v, %v, want %+v, %v", body, gotInfo, err, wantInfo, wantErr)
		}
	})
}

// What no model reads is left out, and it is known how much that is.
func TestLongBodySkips(t *testing.T) {
	const junk = 100_000
	body := []byte(`{"messages":[],"metadata":{"x":"` + strings.Repeat("x", junk) + `"},"model":"m"}`)
	l := long(1000, body)
	short, whole := l.Body()
	if n := l.Skipped() + len(short); !whole || l.Skipped() < junk || n > len(body) || len(short) > 100 {
		t.Errorf("%d bytes are skipped, %d kept of %d", l.Skipped(), len(short), len(body))
	}
}

// BenchmarkLongBody measures reading on behind what is kept, in parts as a gateway passes them on.
func BenchmarkLongBody(b *testing.B) {
	for _, mib := range []int{1, 4, 25} {
		picture := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			strings.Repeat("QUJD", mib<<18) + `"}}]}],"model":"m"}`
		for name, body := range map[string][]byte{"text": chatBody(mib << 20), "picture": []byte(picture)} {
			b.Run(name+strconv.Itoa(mib)+"MiB", func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					l := NewLongBody(256<<10, testSecret)
					for part := range slices.Chunk(body, 64<<10) {
						l.Read(part)
					}
					if l.Body(); !l.Ended() {
						b.Fatal("not read to its end")
					}
				}
			})
		}
	}
}
