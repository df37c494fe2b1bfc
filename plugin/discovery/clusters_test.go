package discovery

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// The samples in testdata were taken from Envoy with one endpoint in each state, six requests in flight, and then with
// the first endpoint of llm removed while it served four of them.
func TestParseClustersSamples(t *testing.T) {
	outbound := []lb.Endpoint{
		{Addr: "127.0.0.1:23109", Weight: 1, State: lb.Unhealthy},
		{Addr: "10.255.255.1:80", Weight: 1, State: lb.Unhealthy},
	}
	for _, version := range []string{"1.36.2", "1.40.0"} {
		for _, removed := range []bool{false, true} {
			name, first := version, lb.Healthy
			if removed {
				name, first = version+"-removed", lb.Draining
			}
			t.Run(name, func(t *testing.T) {
				text, err := os.ReadFile("testdata/clusters-" + name + ".txt")
				if err != nil {
					t.Fatal(err)
				}
				want := map[string][]lb.Endpoint{
					"llm": {
						{Addr: "127.0.0.1:23101", Weight: 3, State: first},
						{Addr: "127.0.0.1:23102", Weight: 1, State: lb.Unhealthy},
						{Addr: "127.0.0.1:23103", Weight: 1, State: lb.Ejected},
						{Addr: "127.0.0.1:23104", Weight: 1, State: lb.Draining},
						{Addr: "127.0.0.1:23105", Weight: 1, State: lb.Unhealthy},
						{Addr: "127.0.0.1:23106", Weight: 1, State: lb.Degraded},
						{Addr: "[::1]:23107", Weight: 1, State: lb.Healthy},
					},
					"dns": {
						{Addr: "127.0.0.1:23101", Weight: 1, Zone: lb.Zone{Region: "r1", Name: "z1"}}, // healthy
					},
					"outbound|8000||llm.models.svc.cluster.local": outbound,
					"empty": nil,
				}
				if got, _ := ParseClusters(text); !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

// limits is a line that every cluster has.
const limits = "c::default_priority::max_requests::1\n"

// clustersCases are answers of /clusters, with the clusters as shown writes them.
var clustersCases = []struct {
	name, text, want string
}{
	{"nothing", "", "map[]"},
	{"other text", "404 not found\n\n::\n::::\na::b\na::b::c::d\n", "map[]"},
	{"one", "c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::weight::2\n", "map[c:[{1.2.3.4:80 2 healthy}]]"},
	{"behind an empty line", "\nc::1.2.3.4:80::health_flags::healthy\n", "map[c:[{1.2.3.4:80 1 healthy}]]"},
	{
		"a cluster without a name", "::1.2.3.4:80::health_flags::healthy\n::[::1]:80::health_flags::healthy\n",
		"map[:[{1.2.3.4:80 1 healthy} {[::1]:80 1 healthy}]]",
	},
	{
		"highest port and shortest addresses",
		"c::1.2.3.4:65535::health_flags::healthy\nc::0.0.0.0:1::health_flags::healthy\n" +
			"c::[::]:1::health_flags::healthy\n",
		"map[c:[{1.2.3.4:65535 1 healthy} {0.0.0.0:1 1 healthy} {[::]:1 1 healthy}]]",
	},
	{
		"named by a request",
		"c::1.2.3.4:80::hostname::c1.2.3.4:80\nc::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::weight::1\n",
		"map[]",
	},
	{
		"a name of its own", "c::1.2.3.4:80::hostname::c\nc::1.2.3.4:80::health_flags::healthy\n",
		"map[c:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"the address for a name", "c::1.2.3.4:80::hostname::1.2.3.4:80\nc::1.2.3.4:80::health_flags::healthy\n",
		"map[c:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"weight first", "c::1.2.3.4:80::weight::2\nc::1.2.3.4:80::health_flags::healthy\n",
		"map[c:[{1.2.3.4:80 2 healthy}]]",
	},
	{"no host", limits + "c::high_priority::max_requests::1\nc::added_via_api::true\n", "map[c:[]]"},
	{
		"none any more", limits + "c::1.2.3.4:80::health_flags::/pending_dynamic_removal\n",
		"map[c:[{1.2.3.4:80 1 draining}]]",
	},
	{
		"limits, and named by a request",
		limits + "c::1.2.3.4:80::hostname::c1.2.3.4:80\nc::1.2.3.4:80::health_flags::healthy\n", "map[]",
	},
	{"a socket", limits + "c::/run/x.sock::weight::1\nc::/run/x.sock::health_flags::healthy\n", "map[]"},
	{"no health, and limits", limits + "c::1.2.3.4:80::weight::1\n", "map[]"},
	{"no weight", "c::1.2.3.4:80::health_flags::healthy\n", "map[c:[{1.2.3.4:80 1 healthy}]]"},
	{
		"bad weights",
		"c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::weight::0\nc::1.2.3.4:80::weight::-2\n" +
			"c::1.2.3.4:80::weight::x\n",
		"map[c:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"no health", "c::1.2.3.4:80::weight::2\nc::1.2.3.5:80::health_flags::healthy\n",
		"map[c:[{1.2.3.5:80 1 healthy}]]",
	},
	{
		"last line cut", "c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.5:80::health_flags::heal",
		"map[c:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"last weight cut", "c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::weight::10",
		"map[c:[{1.2.3.4:80 1 healthy}]]",
	},
	{"carriage returns", "c::1.2.3.4:80::health_flags::healthy\r\n", "map[c:[{1.2.3.4:80 1 degraded}]]"},
	{
		"separator in the cluster's name", "a::b::1.2.3.4:80::health_flags::healthy\n",
		"map[a::b:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"IPv6", "c::[2001:db8::1]:80::health_flags::healthy\nc::[::]:81::health_flags::healthy\n",
		"map[c:[{[2001:db8::1]:80 1 healthy} {[::]:81 1 healthy}]]",
	},
	{
		"separator in a host name",
		"c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::hostname::a::b\nc::1.2.3.4:80::weight::3\n",
		"map[c:[{1.2.3.4:80 3 healthy}]]",
	},
	{
		"failover priority", "c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::priority::1\n",
		"map[c:[{1.2.3.4:80 1 healthy 1 { }}]]",
	},
	{
		"sick failover priority", "c::1.2.3.4:80::health_flags::/failed_active_hc\nc::1.2.3.4:80::priority::1\n",
		"map[c:[{1.2.3.4:80 1 unhealthy 1 { }}]]",
	},
	{
		"bad priorities",
		"c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::priority::-1\n" +
			"d::1.2.3.4:80::health_flags::healthy\nd::1.2.3.4:80::priority::999\n",
		"map[c:[{1.2.3.4:80 1 healthy}] d:[{1.2.3.4:80 1 healthy 255 { }}]]",
	},
	{
		"zones",
		"c::1.2.3.4:80::health_flags::healthy\nc::1.2.3.4:80::region::r\nc::1.2.3.4:80::zone::a\n" +
			"c::1.2.3.4:80::sub_zone::x\nc::1.2.3.5:80::health_flags::healthy\nc::1.2.3.5:80::region::\n" +
			"c::1.2.3.5:80::zone::a\n",
		"map[c:[{1.2.3.4:80 1 healthy 0 {r a}} {1.2.3.5:80 1 healthy 0 { a}}]]",
	},
	{
		"similar names",
		"c::1.2.3.4:80::health_flags_x::/failed_active_hc\nc::1.2.3.4:80::health_flags::healthy\n" +
			"c::1.2.3.4:80::weights::5\n",
		"map[c:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"clusters mixed",
		"a::1.2.3.4:80::health_flags::healthy\nb::1.2.3.4:80::health_flags::healthy\n" +
			"a::1.2.3.5:80::health_flags::healthy\n",
		"map[a:[{1.2.3.4:80 1 healthy} {1.2.3.5:80 1 healthy}] b:[{1.2.3.4:80 1 healthy}]]",
	},
	{
		"behind an internal listener",
		"c::envoy://tunnel/1.2.3.4:80::health_flags::healthy\nc::envoy://tunnel/1.2.3.4:80::weight::2\n" +
			"a::b::envoy://tunnel/[2001:db8::1]:80::health_flags::healthy\n",
		"map[a::b:[{envoy://tunnel/[2001:db8::1]:80 1 healthy}] c:[{envoy://tunnel/1.2.3.4:80 2 healthy}]]",
	},
	{"not addresses", strings.Join([]string{
		"c::/run/x.sock::health_flags::healthy", "c::@abstract::health_flags::healthy",
		"c::envoy://l/::health_flags::healthy", "c::envoy://l::health_flags::healthy",
		"c::envoy:///1.2.3.4:80::health_flags::healthy", "c::envoy://l/a,b::health_flags::healthy",
		"c::host:80::health_flags::healthy", "c::1.2.3:80::health_flags::healthy",
		"c::1.2.3.4::health_flags::healthy",
		"c::1.2.3.4:0::health_flags::healthy", "c::1.2.3.4:65536::health_flags::healthy",
		"c::[::1]::health_flags::healthy", "c::[1]:80::health_flags::healthy", "",
	}, "\n"), "map[]"},
}

func TestParseClusters(t *testing.T) {
	for _, tt := range clustersCases {
		t.Run(tt.name, func(t *testing.T) {
			clusters, _ := ParseClusters([]byte(tt.text))
			if got := shown(clusters); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// shown prints clusters, and of endpoints only what differs from the default.
func shown(clusters any) string {
	text := fmt.Sprint(clusters)
	return strings.ReplaceAll(text, " 0 { }", "")
}

func TestStateOf(t *testing.T) {
	for flags, want := range map[string]lb.State{
		"":                                        lb.Healthy,
		"healthy":                                 lb.Healthy,
		"/failed_active_hc":                       lb.Unhealthy,
		"/failed_outlier_check":                   lb.Ejected,
		"/failed_eds_health":                      lb.Unhealthy,
		"/degraded_active_hc":                     lb.Degraded,
		"/degraded_eds_health":                    lb.Degraded,
		"/eds_status_draining":                    lb.Draining,
		"/pending_dynamic_removal":                lb.Draining,
		"/pending_active_hc":                      lb.Draining,
		"/failed_active_hc/active_hc_timeout":     lb.Unhealthy,
		"/excluded_via_immediate_hc_fail":         lb.Draining,
		"/failed_outlier_check/degraded_x":        lb.Ejected,
		"/failed_outlier_check/failed_eds_health": lb.Unhealthy,
		"/failed_active_hc/eds_status_draining":   lb.Draining,
		"/some_flag_of_the_future":                lb.Degraded,
	} {
		if got := stateOf([]byte(flags)); got != want {
			t.Errorf("%s: got %v, want %v", flags, got, want)
		}
	}
}

// clustersText returns what Envoy answers for n hosts, in a form taken from a real answer.
func clustersText(tb testing.TB, n int) []byte {
	tb.Helper()
	sample, err := os.ReadFile("testdata/clusters-1.40.0.txt")
	if err != nil {
		tb.Fatal(err)
	}
	var host []byte
	for line := range bytes.Lines(sample) {
		if bytes.HasPrefix(line, []byte("llm::127.0.0.1:23101::")) {
			host = append(host, line...)
		}
	}
	text := []byte("llm::observability_name::llm\nllm::added_via_api::false\n")
	for i := range n {
		addr := fmt.Sprintf("10.0.%d.%d:8000", i/250, 1+i%250)
		text = append(text, bytes.ReplaceAll(host, []byte("127.0.0.1:23101"), []byte(addr))...)
	}
	return text
}

func TestParseManyHosts(t *testing.T) {
	clusters, _ := ParseClusters(clustersText(t, 1000))
	got := clusters["llm"]
	if len(got) != 1000 || got[999] != (lb.Endpoint{Addr: "10.0.3.250:8000", Weight: 3}) {
		t.Errorf("%d hosts, last %v", len(got), got[len(got)-1])
	}
}

func BenchmarkParseClusters(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		text := clustersText(b, n)
		b.Run(fmt.Sprint(n, "hosts"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ParseClusters(text)
			}
		})
	}
}

// FuzzParseClusters checks that every endpoint of the result was completely in the text, and that adding a line about
// another host changes none of them.
func FuzzParseClusters(f *testing.F) {
	// Short ones: the samples are so long that the fuzzer would do nothing but shorten them.
	f.Add([]byte("llm::added_via_api::false\nllm::1.2.3.4:80::rq_active::4\nllm::1.2.3.4:80::health_flags::healthy\n" +
		"llm::1.2.3.4:80::weight::3\n"))
	f.Add([]byte("a::[::1]:80::hostname::x::y\na::[::1]:80::health_flags::/failed_active_hc/active_hc_timeout\n" +
		"a::[::1]:80::priority::1\na::[::1]:80::region::r\na::[::1]:80::zone::z\n"))
	f.Add([]byte("a::default_priority::max_requests::4\na::high_priority::max_requests::9\n" +
		"a::1.2.3.4:80::rq_active::3\na::1.2.3.4:80::health_flags::healthy\na::[::1]:80::rq_active::1\n" +
		"b::default_priority::max_requests::4294967295\nb::1.2.3.4:80::rq_active::7\n"))
	f.Add([]byte("a::default_priority::max_requests::4\na::/run/x::health_flags::healthy\nb::default_priority::x::1\n"))
	f.Add([]byte("a::envoy://l/[::1]:80::health_flags::healthy\nb::envoy://l/x::health_flags::healthy\nb::::envoy://l/\n"))
	f.Add([]byte("outbound|80||a.b::/run/x::health_flags::healthy\nb::1.2.3.4:80::health_flags::/eds_status_draining"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, breakers := ParseClusters(text)
		for cluster, endpoints := range got {
			if len(endpoints) == 0 && !bytes.Contains(text, []byte(cluster+"::default_priority::")) {
				t.Fatalf("%q: there is %q", text, cluster)
			}
			for _, e := range endpoints {
				if !bytes.Contains(text, []byte(cluster+"::"+e.Addr+"::health_flags::")) || e.Weight < 1 ||
					e.State > lb.Ejected {
					t.Fatalf("%q: %+v in %q", text, e, cluster)
				}
			}
		}
		for cluster, b := range breakers {
			if !bytes.Contains(text, []byte(cluster+"::default_priority::max_requests::")) || b.MaxRequests < 0 ||
				b.MaxRequests >= unlimited || b.Active < 0 || b.Active > maxActive {
				t.Fatalf("%q: %+v of %q", text, b, cluster)
			}
		}
		if again, err := ParseBreakers(AppendBreakers(nil, breakers)); err != nil ||
			!reflect.DeepEqual(again, breakers) {
			t.Fatalf("%q: %v, then %v, %v", text, breakers, again, err)
		}
		const other = "\nanother cluster::10.9.9.9:99::health_flags::healthy\n"
		more, _ := ParseClusters(append(bytes.Clone(text), other...))
		for cluster, endpoints := range got {
			if len(endpoints) == 0 {
				continue
			}
			if len(more[cluster]) < len(endpoints) ||
				!reflect.DeepEqual(more[cluster][:len(endpoints)-1], endpoints[:len(endpoints)-1]) {
				t.Fatalf("%q: %v became %v", text, endpoints, more[cluster])
			}
		}
	})
}
