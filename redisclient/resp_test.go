package redisclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/resp"

	"github.com/warmgate/warmgate/redisclient"
)

type value = redisclient.Value

// parsed are the cases of TestParse.
var parsed = []struct {
	in, rest string
	want     value
}{
	{"+OK\r\n", "", value{Kind: redisclient.Simple, Str: []byte("OK")}},
	{"+\r\n", "", value{Kind: redisclient.Simple, Str: []byte{}}},
	{"-ERR no\r\n+OK\r\n", "+OK\r\n", value{Kind: redisclient.ErrorReply, Str: []byte("ERR no")}},
	{":0\r\n", "", value{Kind: redisclient.Integer}},
	{":-3\r\nx", "x", value{Kind: redisclient.Integer, Int: -3}},
	{":9223372036854775807\r\n", "", value{Kind: redisclient.Integer, Int: 1<<63 - 1}},
	{"$-1\r\n", "", value{Kind: redisclient.Bulk, Null: true}},
	{"$0\r\n\r\n", "", value{Kind: redisclient.Bulk, Str: []byte{}}},
	{"$4\r\n\r\n\r\n\r\n", "", value{Kind: redisclient.Bulk, Str: []byte("\r\n\r\n")}},
	{"*-1\r\n", "", value{Kind: redisclient.Array, Null: true}},
	{"*0\r\n", "", value{Kind: redisclient.Array}},
	{"*2\r\n:1\r\n*1\r\n$1\r\na\r\n:", ":", value{Kind: redisclient.Array, Items: []value{
		{Kind: redisclient.Integer, Int: 1},
		{Kind: redisclient.Array, Items: []value{{Kind: redisclient.Bulk, Str: []byte("a")}}},
	}}},
}

func TestParse(t *testing.T) {
	for _, c := range parsed {
		got, rest, err := redisclient.Parse([]byte(c.in))
		if err != nil || string(rest) != c.rest || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %q, %v; want %+v, %q", c.in, got, rest, err, c.want, c.rest)
		}
	}
}

// Every beginning of a reply is incomplete, so that a caller waits for more instead of failing, or using half of it.
func TestParseHalfReplies(t *testing.T) {
	for _, whole := range []string{
		"+OK\r\n", "-ERR unknown command\r\n", ":-12\r\n", "$5\r\na\r\nbc\r\n", "*3\r\n:1\r\n$2\r\nab\r\n*1\r\n+x\r\n",
	} {
		for n := range len(whole) {
			_, rest, err := redisclient.Parse([]byte(whole[:n]))
			if !errors.Is(err, redisclient.ErrIncomplete) || rest != nil {
				t.Errorf("%q: rest %q, %v", whole[:n], rest, err)
			}
		}
	}
}

// garbage are the cases of TestParseGarbage.
var garbage = map[string]string{
	"HTML":                       "<html><body>502 Bad Gateway</body></html>",
	"HTTP":                       "HTTP/1.1 400 Bad Request\r\n\r\n",
	"one wrong byte":             "x",
	"NUL":                        "\x00\x00\x00\x00",
	"RESP3 map":                  "%1\r\n+a\r\n:1\r\n",
	"RESP3 null":                 "_\r\n",
	"no number":                  ":1x\r\n",
	"empty number":               ":\r\n",
	"number too large":           ":9223372036854775808\r\n",
	"fraction":                   ":1.5\r\n",
	"bulk without length":        "$\r\n\r\n",
	"bulk of negative length":    "$-2\r\n",
	"bulk longer than announced": "$1\r\nabc\r\n",
	"bulk without an end":        "$3\r\nabcde",
	"bulk of 100 MB":             "$104857600\r\n",
	"bulk beyond all numbers":    "$99999999999999999999\r\n",
	"array of negative length":   "*-2\r\n",
	"array of 10^6":              "*1000000\r\n",
	"array of garbage":           "*2\r\n:1\r\nx\r\n",
	"line that never ends":       "+" + strings.Repeat("a", 1<<20),
	"number that never ends":     ":" + strings.Repeat("1", 1<<20),
	"arrays nested 10^6 deep":    strings.Repeat("*1\r\n", 1_000_000),
	"10^6 items in many arrays":  "*1000\r\n" + strings.Repeat("*1000\r\n"+strings.Repeat(":1\r\n", 1000), 1000),
}

func TestParseGarbage(t *testing.T) {
	for name, in := range garbage {
		t.Run(name, func(t *testing.T) {
			v, rest, err := redisclient.Parse([]byte(in))
			if !errors.Is(err, redisclient.ErrGarbage) || rest != nil || !reflect.DeepEqual(v, redisclient.Value{}) {
				t.Errorf("%+v, %d bytes, %v", v, len(rest), err)
			}
		})
	}
}

// A header that announces much must not make the parser allocate much: an array is allocated as its items arrive.
func TestParseAllocatesNoMoreThanArrives(t *testing.T) {
	for _, in := range []string{"*65536\r\n:1\r\n", "$1048576\r\nabc"} {
		b := []byte(in)
		if n := testing.AllocsPerRun(10, func() { _, _, _ = redisclient.Parse(b) }); n > 4 {
			t.Errorf("%q: %v allocations", in, n)
		}
	}
	big := []byte("$1048576\r\n" + strings.Repeat("a", 1<<20) + "\r\n")
	if v, _, err := redisclient.Parse(big); err != nil || len(v.Str) != 1<<20 {
		t.Errorf("a string at the limit: %d bytes, %v", len(v.Str), err)
	}
	many := []byte("*65535\r\n" + strings.Repeat(":1\r\n", 65535))
	if v, _, err := redisclient.Parse(many); err != nil || len(v.Items) != 65535 {
		t.Errorf("an array at the limit: %d items, %v", len(v.Items), err)
	}
}

func TestAppendCommand(t *testing.T) {
	got := redisclient.AppendCommand([]byte("before"), "SET", "", "a\r\n\x00é")
	if want := "before*3\r\n$3\r\nSET\r\n$0\r\n\r\n$6\r\na\r\n\x00é\r\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzParse never panics, never reads more than one reply, and agrees with another implementation.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "-NOSCRIPT No matching script.\r\n", ":1\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*-1\r\n",
		"*5\r\n:0\r\n:1\r\n$8\r\n01234567\r\n$0\r\n\r\n$-1\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n", "+a\nb\r\n+c\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, rest, err := redisclient.Parse(in)
		if err != nil {
			if rest != nil || !errors.Is(err, redisclient.ErrIncomplete) && !errors.Is(err, redisclient.ErrGarbage) {
				t.Fatalf("rest %q, %v", rest, err)
			}
			return
		}
		if !bytes.HasSuffix(in, rest) {
			t.Fatalf("rest %q is not the end", rest)
		}
		read := in[:len(in)-len(rest)]
		alone, none, err := redisclient.Parse(bytes.Clone(read))
		if err != nil || len(none) > 0 || !reflect.DeepEqual(alone, v) {
			t.Fatalf("alone it is %+v, %q, %v; with more behind it was %+v", alone, none, err, v)
		}
		other, n, err := resp.NewReader(bytes.NewReader(in)).ReadValue()
		if err != nil || n != len(read) || describe(v) != describeOther(other) {
			t.Fatalf("%s of %d bytes; the other parser: %s of %d bytes, %v",
				describe(v), len(read), describeOther(other), n, err)
		}
	})
}

func describe(v redisclient.Value) string {
	s := fmt.Sprintf("%c %v %d %q", v.Kind, v.Null, v.Int, v.Str)
	for _, item := range v.Items {
		s += " [" + describe(item) + "]"
	}
	return s
}

func describeOther(v resp.Value) string {
	n, text := 0, []byte(nil)
	switch v.Type() {
	case resp.Integer:
		n = v.Integer()
	case resp.Array:
	default:
		text = v.Bytes()
	}
	s := fmt.Sprintf("%c %v %d %q", byte(v.Type()), v.IsNull(), n, text)
	for _, item := range v.Array() {
		s += " [" + describeOther(item) + "]"
	}
	return s
}
