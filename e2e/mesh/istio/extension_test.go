package istio

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// extension is what Istio calls the plugin in traffic-extension.yaml.
const extension = "extensions.istio.io/trafficextension/istio-system.warmgate"

// Parts of the plugin's configuration in traffic-extension.yaml.
const (
	extensionPolicy = "lb_policy: global_least_request"
	extensionConfig = "        lb_config:\n"
)

// asExtension returns the resources that are installed, with traffic-extension.yaml in the place of warmgate.yaml.
func asExtension(t *testing.T, applied string) string {
	t.Helper()
	image := regexp.MustCompile(`oci://\S+/warmgate-envoy:\S+`)
	pushed := image.FindString(applied)
	own := read(t, "warmgate.yaml")
	return image.ReplaceAllString(with(t, applied, image.ReplaceAllString(own, pushed),
		read(t, "traffic-extension.yaml")), pushed)
}

// TestTrafficExtension does what TestInstall does.
func TestTrafficExtension(t *testing.T) {
	applied, request := installed(t)
	text := asExtension(t, applied)
	lab.OnVersions(t, func(t *testing.T, version string) {
		gateway := controlled(t, version, text)
		gateway.ByRequests = true
		gateway.Check(t)
		gateway.Requested(t, request)
	})
}

// TestSameGateway compares what Istio makes of traffic-extension.yaml and of warmgate.yaml: it differs in names, and in
// what docs/istio.md says.
func TestSameGateway(t *testing.T) {
	applied, _ := installed(t)
	servers := lab.Servers(t, 1)
	port := harness.FreePortT(t)
	rename := func(text string) string { return strings.ReplaceAll(text, extension, "warmgate") }
	want, have := istiod(t, port, servers, applied), istiod(t, port, servers, asExtension(t, applied))
	for _, r := range []struct{ have, want []map[string]any }{
		{have.Listeners, want.Listeners},
		{have.Clusters, want.Clusters},
		{have.Routes, want.Routes},
		{have.Endpoints, want.Endpoints},
	} {
		if a, b := rename(fmt.Sprint(r.have)), fmt.Sprint(r.want); a != b {
			t.Errorf("there is\n%s\nwant\n%s", a, b)
		}
	}
	plugin := func(r *lab.Resources) map[string]any {
		return r.Extensions[0]["typedConfig"].(map[string]any)["config"].(map[string]any)
	}
	own, other := plugin(have), plugin(want)
	only := func(m map[string]any, keys ...string) {
		for _, key := range keys {
			if m[key] == nil {
				t.Errorf("no %s in %v", key, m)
			}
			delete(m, key)
		}
	}
	only(own, "name", "configuration")
	only(other, "name", "configuration", "allowOnHeadersStopIteration", "reloadConfig")
	machine, otherMachine := own["vmConfig"].(map[string]any), other["vmConfig"].(map[string]any)
	only(machine, "code") // a file in a folder of its own
	only(otherMachine, "code", "vmId")
	if !reflect.DeepEqual(own, other) {
		t.Errorf("the plugin is run with %v, want %v", own, other)
	}
}

// TestExtensionWithoutModule does what TestNoModule does.
func TestExtensionWithoutModule(t *testing.T) {
	applied, _ := installed(t)
	text := asExtension(t, applied)
	for name, text := range map[string]string{
		"not there":         with(t, text, ":0.1.0", ":0.0.0"),
		"of a wrong digest": with(t, text, "  wasm:\n", "  wasm:\n    sha256: "+strings.Repeat("a", 64)+"\n"),
	} {
		t.Run(name, func(t *testing.T) { controlled(t, harness.DefaultVersion, text).Native(t) })
	}
}

// TestExtensionMetrics does what TestMetrics does.
func TestExtensionMetrics(t *testing.T) {
	applied, _ := installed(t)
	text := with(t, asExtension(t, applied), extensionPolicy, "lb_policy: endpoint_metrics")
	controlled(t, harness.DefaultVersion, text).Scraped(t)
}

// TestExtensionTokens has the plugin ask for bodies, which it cannot get: each request waits for body_timeout, is
// counted as body_late, and is balanced all the same.
func TestExtensionTokens(t *testing.T) {
	applied, request := installed(t)
	text := with(t, asExtension(t, applied), extensionConfig, extensionConfig+"          unit: tokens\n")
	gateway := controlled(t, harness.DefaultVersion, text)
	gateway.Requested(t, request)
	harness.Await(t, func() error {
		gateway.Requested(t, request)
		if n := gateway.Sum(t, `^wasmcustom\.warmgate_decisions_total.*body_late`); n == 0 {
			return fmt.Errorf("no request is counted as body_late")
		}
		return nil
	})
	if n := gateway.Sum(t, `^wasmcustom\.warmgate_decisions_total.*reason=chosen`); n != 0 {
		t.Errorf("%v requests had their bodies", n)
	}
}

// TestPullSecret has the image in a registry that asks for a login: Istio's agent has that from the secret which the
// TrafficExtension names, and without it fetches nothing.
func TestPullSecret(t *testing.T) {
	applied, _ := installed(t)
	text := asExtension(t, applied)
	login := authn.FromConfig(authn.AuthConfig{Username: "puller", Password: "not secret"})
	closed := closedRegistry(t, "puller", "not secret")
	url := regexp.MustCompile(`oci://(\S+)`).FindStringSubmatch(text)[1]
	image := closed + "/warmgate-envoy:0.1.0"
	copyImage(t, url, image, login)
	text = with(t, text, "oci://"+url, "oci://"+image, "  wasm:\n", "  wasm:\n    imagePullSecret: login\n")
	server, proxy := discovery(t, text, "")
	auth := base64.StdEncoding.EncodeToString([]byte("puller:not secret"))
	for secret, want := range map[string]string{
		`{"auths": {"` + closed + `": {"auth": "` + auth + `"}}}`: "envoy.extensions.filters.http.wasm.v3.Wasm",
		`{"auths": {}}`: "envoy.extensions.filters.http.rbac.v3.RBAC", // which denies all, and Envoy refuses
	} {
		x := fetched(t, extensions(server, proxy, map[string][]byte{"kubernetes://istio-system/login": []byte(secret)}))
		if have := string(x[0].TypedConfig.MessageName()); have != want {
			t.Errorf("%s: the plugin is a %s, want %s", secret, have, want)
		}
	}
}

// realm is a URL: Istio's agent takes no other realm, also for a login that needs none.
const realm = "https://login.llm.test/"

// closedRegistry starts a registry that asks for a login, and returns its address.
func closedRegistry(t *testing.T, user, password string) string {
	t.Helper()
	open := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("www-authenticate", `Basic realm="`+realm+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		open.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// copyImage copies an image to a registry with a login.
func copyImage(t *testing.T, from, to string, login authn.Authenticator) {
	t.Helper()
	source, err := name.ParseReference(from)
	if err != nil {
		t.Fatal(err)
	}
	target, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(target, image, remote.WithAuth(login)); err != nil {
		t.Fatal(err)
	}
}
