package redisclient_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/redisclient"
)

// The values of the following tests, with their bytes.
const (
	formatTime  = time.Duration(0x0102030405060708)
	formatID    = lb.LeaseID(0x1112131415161718)
	formatID0   = "\x18\x17\x16\x15\x14\x13\x12\x11" // formatID
	formatID1   = "\x19\x17\x16\x15\x14\x13\x12\x11" // formatID+1
	formatTag   = "\x17\xb2\x43\x80"                 // of the first endpoint
	formatTerms = "\x00\x00\x00\x00\x00\x00\x08\x40" + "\x28\x27\x26\x25" + "\x01" + "\xff\xff\xff\xff" +
		formatHalf
	formatOne  = "\x00\x00\x00\x00\x00\x00\xf0\x3f"
	formatTwo  = "\x00\x00\x00\x00\x00\x00\x00\x40"
	formatHalf = "\x00\x00\x00\x00\x00\x00\xe0\x3f"
	formatZero = "\x00\x00\x00\x00\x00\x00\x00\x00"
	formatList = "\x52\x8c\xf2\x1d" // digest of the endpoints
)

func formatPlan() *lb.Plan {
	return &lb.Plan{
		Scope: "llm", Unit: lb.Tokens, Tokens: 3, PerRequest: 1<<32 + 5, Stall: 0.5,
		Random: 0x2122232425262728,
		List: lb.NewList([]lb.Candidate{
			{Addr: "10.0.0.1:80", Base: 1, Slope: 2, Weight: 0.5, Cap: 3, Capacity: 4, OverSlope: 5, TokenCap: 2},
			{Addr: "10.0.0.2:80", Slope: 1, Weight: 1},
			{Addr: "10.0.0.3:80", Slope: 1, Weight: 1, Cap: -1, TokenCap: -1},
		}),
	}
}

// What scripts unpack is byte for byte as documented in them: gateways with another version of the plugin use the same
// data. So is what the workers of one gateway share.
func TestFormats(t *testing.T) {
	m, kv := &manualTransport{}, newMemory()
	s := newManualStore(m, kv)
	s.Reserve(formatTime, formatID, formatPlan(), func(lb.Grant, error) {})
	m.wantArguments(t, 0, "1", "60000", "10000",
		formatOne+formatTwo+formatHalf+"\x00\x00\x00\x00\x00\x00\x08\x40"+
			"\x00\x00\x00\x00\x00\x00\x10\x40"+"\x00\x00\x00\x00\x00\x00\x14\x40"+formatTwo+
			formatZero+formatOne+formatOne+formatZero+"\x00\x00\x00\x00\x00\x00\xf0\x7f"+formatZero+formatZero,
		formatTag+"\x16\x9d\xa2\xa6"+"\x0e\x86\x59\x5f", "\x00\x00"+"\x01\x00"+"\x01\x00", "",
		"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
	m.wantArguments(t, 1, formatID0, formatTerms)
	if !strings.Contains(string(m.cmds[1]), redisclient.KeysOf("llm").Candidates+"350mdosi3r3sr\r\n") {
		t.Errorf("another digest of the candidates: %q", m.cmds[1])
	}
	m.answer(formatTime, 1, noScript)
	for key, val := range kv.vals {
		if strings.HasPrefix(key, "warmgate/1/script/") && string(val) != "\x08\x07\x06\x05\x04\x03\x02\x01" {
			t.Errorf("the claim of a script: %q", val)
		}
	}
	if len(kv.vals) != 1 {
		t.Errorf("%d values in shared memory, want the claim alone", len(kv.vals))
	}
	s.Release(formatTime, formatID)
	m.wantArguments(t, len(m.cmds)-1, "0", "120000", formatID0)
	s.Adopt(formatTime, formatID+1, "llm", "10.0.0.3:80", 7)
	m.wantArguments(t, len(m.cmds)-1, "1", "60000", formatID1, "7", "0", "10.0.0.3:80")
	set := lb.Override{Target: uint64(formatID), Set: lb.TargetLimits{1, 2, 0}, Over: lb.TargetLimits{0.5, 0, 1}}
	s.Overrides(formatTime, "llm", &set, func([]lb.Override, error) {})
	m.wantArguments(t, len(m.cmds)-1, formatID0, formatOne+formatTwo+formatZero+formatHalf+formatZero+formatOne)
}

func TestFormatsOfPrompts(t *testing.T) {
	const (
		keys   = "\x07\x06\x05\x04\x03\x02\x01\x0a" + "\x7f\x00\x00\x00\x00\x00\x00\x00"
		fields = "\x87\xa3\x02" + "\x7f\x00\x00"
	)
	plan := formatPlan()
	plan.Prefix = lb.Prefix{
		Blocks: []prompt.Block{{Key: 0x0a01020304050607, End: 0x010203}, {Key: 0x7f, End: 0x010204}},
		Bytes:  1, Tokens: 2, Credit: 0.5, CreditGrowth: -1, CreditBytes: []uint32{1, 0x04030201},
		TTL: 0x01020304 * time.Millisecond, IndexMemory: lb.IndexMemory{Remote: 1 << 30},
		ShortTTL: []lb.EndpointTTL{{Endpoint: 0x31323334, TTL: 4 * 0x0102 * time.Second}, {Endpoint: 1, TTL: -1}},
	}
	m := &manualTransport{}
	s := newManualStore(m, newMemory())
	var grant lb.Grant
	s.Reserve(formatTime, formatID, plan, func(g lb.Grant, err error) {
		if grant = g; err != nil {
			t.Error(err)
		}
	})
	m.wantArguments(t, 1, formatID0,
		formatTerms+"\x02"+"\x00"+formatHalf+formatZero+formatOne+formatTwo+"\x04\x03\x02\x01"+"\x01"+
			"\x34\x33\x32\x31"+"\x02\x01"+"\x01\x00\x00\x00"+"\x00\x00",
		keys+fields+"\x03\x02\x01\x00"+"\x04\x02\x01\x00"+"\x01\x00\x00\x00"+"\x01\x02\x03\x04")
	m.answer(formatTime, 1, "$19\r\n"+"\x02\x00"+"\x34\x33\x32\x31"+"\x28\x27\x26\x25\x24\x23\x22\x21"+"\x01"+
		"\x44\x43\x42\x41"+"\r\n")
	load := lb.Load{Requests: 0x31323334, Tokens: 0x2122232425262728}
	if grant != (lb.Grant{Index: 2, Load: load, Cached: 1}) {
		t.Errorf("granted %+v", grant)
	}
	s.RecordPrompt(formatTime, formatID, plan, "10.0.0.1:80")
	s.ForgetPrompt(formatTime, formatID, plan, "10.0.0.1:80", 0)
	s.Amend(formatTime, formatID, "10.0.0.2:80", 8)
	m.wantArguments(t, 2, formatTag, keys+fields, strconv.Itoa(0x01020304))
	m.wantArguments(t, 3, formatTag, keys+fields, "1")
	m.wantArguments(t, 4, "60000", formatID0, "8", "1", "10.0.0.2:80")
}

// wantArguments expects arguments of a script in the command that was sent as number i, after the keys.
func (m *manualTransport) wantArguments(t *testing.T, i int, want ...string) {
	t.Helper()
	v, _, err := redisclient.Parse(m.cmds[i])
	if err != nil {
		t.Fatal(err)
	}
	keys, err := strconv.Atoi(string(v.Items[2].Str))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range v.Items[3+keys:] {
		got = append(got, string(item.Str))
	}
	if !slices.Equal(got, want) {
		t.Errorf("command %d\n got %q\nwant %q", i, got, want)
	}
}

func TestFormatsOfWaiting(t *testing.T) {
	const since = "\x04\x03\x02\x01"
	plan := formatPlan()
	plan.Prefix.Takes = 0x01020308 * time.Millisecond / (1 + lb.HeldUp)
	plan.Wait = lb.Wait{
		Max: 0x01020305 * time.Millisecond, Since: formatTime - 0x01020304*time.Millisecond,
		Place:  &lb.Place{Came: 0x010203040506, Number: 0x0708090a},
		Class:  lb.Class{ID: 0x0506, Rank: 7, Weight: 0.5, Reserved: 0x0809},
		Tenant: 0x1112131415161718, Strict: true, Aging: 0x01020306 * time.Millisecond, Skip: 0x0102,
		Patience: 0x01020307 * time.Millisecond, Length: 0x0a0b0c0d, Reserved: 0x0a0b0c0e, TenantLength: 0x0a0b0c0f,
	}
	m := &manualTransport{}
	s := newManualStore(m, newMemory())
	var grant lb.Grant
	s.Reserve(formatTime, formatID, plan, func(g lb.Grant, err error) {
		if grant = g; err != nil {
			t.Error(err)
		}
	})
	m.wantArguments(t, 1, formatID0, formatTerms, "",
		since+"\x05\x03\x02\x01"+"\x06\x03\x02\x01"+"\x07\x03\x02\x01"+"\x08\x03\x02\x01"+"\x02\x01"+"\x06\x05"+"\x07"+"\x09\x08"+"\x01"+
			formatHalf+"\x0d\x0c\x0b\x0a"+"\x0f\x0c\x0b\x0a"+"\x0e\x0c\x0b\x0a"+formatList+"\x06\x05\x04\x03\x02\x01"+
			"\x0a\x09\x08\x07"+"\xfa\x00\x00\x00"+formatID0)
	m.answer(formatTime, 1, "*3\r\n:-4\r\n$8\r\n"+"\x05\x00\x01\x00"+"\x09\x00\x02\x00"+"\r\n$18\r\nabcdefgh"+
		"\x16\x15\x14\x13\x12\x11"+"\x1a\x19\x18\x17"+"\r\n")
	s.Poll(formatTime)
	m.wantArguments(t, 2, "", "0", "250")
	const format16, format64 = "\x00\x00\x00\x00\x00\x00\x30\x40", "\x00\x00\x00\x00\x00\x00\x50\x40"
	queue := "12345678" + "abcdefgh" + "\x03\x00\x00\x00" + since + "\x01" + "\x01" + "\x00\x00\x00\x00\x00\x00" +
		formatZero + "\x00\x00\x00\x00\x00\x00" + "\x01\x00" + since +
		formatTwo + format64 + format16 + formatZero + formatZero + "\x01" + "\x00" + "\x00\x00" +
		"\x06\x05" + "\x07" + "\x09\x08" + formatHalf + strings.Repeat(formatZero, 7) + "\x00\x00\x00\x00\x00\x00" +
		"\x03\x00\x00\x00"
	m.answer(formatTime+time.Second, 2, "*2\r\n$33\r\nstampstm"+formatID0+"\x0a\x00"+"\x34\x33\x32\x31"+
		"\x26\x25\x24\x23\x22\x21"+"\x01"+"\x44\x43\x42\x41"+"\r\n$"+strconv.Itoa(len(queue))+"\r\n"+queue+"\r\n")
	want := lb.Grant{
		Index: 2, Load: lb.Load{Requests: 0x31323334, Tokens: 0x212223242526}, Cached: 1, Queued: true,
		Waited: 0x01020304*time.Millisecond + time.Second,
	}
	if grant != want {
		t.Errorf("granted %+v, want %+v", grant, want)
	}
	stats := s.Queue(0, "llm")
	if stats.Waiting != 3 || stats.Interval != 2*time.Millisecond || stats.ByClass[0x0506] != 3 {
		t.Errorf("the queue is %+v", stats)
	}
	plan.Wait.Max = 20 * time.Hour
	s.Reserve(formatTime, formatID+1, plan, func(lb.Grant, error) {})
	m.answer(formatTime, len(m.cmds)-1, "*3\r\n:-4\r\n$0\r\n\r\n$18\r\nabcdefgh1234567890\r\n")
	s.Poll(formatTime + time.Second)
	m.wantArguments(t, len(m.cmds)-1, "stampstm", "1", "250")
}

// Answers about waiting requests that no script returns are refused.
func TestWaitingReplies(t *testing.T) {
	for _, reply := range []string{
		"*3\r\n:-4\r\n$3\r\nabc\r\n$18\r\nabcdefgh1234567890\r\n",
		"*3\r\n:-4\r\n$0\r\n\r\n$8\r\nabcdefgh\r\n",
		"*2\r\n:-4\r\n$0\r\n\r\n", "*2\r\n:-5\r\n:-1\r\n",
		"*2\r\n:-7\r\n:1\r\n",
		"*3\r\n+x\r\n$0\r\n\r\n$18\r\nabcdefgh1234567890\r\n",
	} {
		plan := formatPlan()
		plan.Wait.Max = time.Second
		m := &manualTransport{}
		s := newManualStore(m, newMemory())
		var got error
		s.Reserve(0, 1, plan, func(_ lb.Grant, err error) { got = err })
		m.answer(0, 1, reply)
		if redisclient.Cause(got) != "garbage" {
			t.Errorf("%q: %v", reply, got)
		}
	}
}
