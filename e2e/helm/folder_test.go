package helm

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	charts "helm.sh/helm/v3/pkg/registry"

	"github.com/warmgate/warmgate/e2e/harness"
)

// folder is what `make release KEY=… REGISTRY=…` leaves: files by name, and the public key that users have from
// elsewhere.
type folder struct {
	files  map[string][]byte
	public *ecdsa.PublicKey
}

// folderT makes a signed release of this tree, in a folder of its own, for a registry if there is one.
func folderT(t *testing.T, registry string) *folder {
	t.Helper()
	for _, host := range []harness.Host{harness.HostEnvoy, harness.HostHigress} {
		harness.ModuleT(t, host)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pemFile, out := filepath.Join(dir, "key.pem"), filepath.Join(dir, "release")
	text = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
	if err := os.WriteFile(pemFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-key", pemFile, "-out", out, "release")
	cmd.Dir = harness.PathT(t, "build/image")
	cmd.Env = append(os.Environ(), "REGISTRY="+registry)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return &folder{harness.FilesT(t, out), &key.PublicKey}
}

// statement is the part of the provenance that is compared here.
type statement struct {
	Subject []struct {
		Name   string
		Digest map[string]string
	}
	Predicate struct {
		BuildDefinition struct{ ExternalParameters map[string]string }
	}
}

// verify does what a careful user does before anything is installed: the sums are signed and those of the files, and so
// are the subjects of the provenance, which is signed, too.
func (f *folder) verify(t *testing.T) (from statement) {
	t.Helper()
	const sums, provenance = "SHA256SUMS", "provenance.intoto.json"
	for name, content := range f.files {
		if name != "cosign.pub" && !strings.HasSuffix(name, ".sig") {
			harness.VerifiedT(t, name, f.public, content, string(f.files[name+".sig"]))
		}
	}
	if err := json.Unmarshal(f.files[provenance], &from); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]string{}
	for _, s := range from.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	listed := 0
	for in := bufio.NewScanner(bytes.NewReader(f.files[sums])); in.Scan(); listed++ {
		sum, name, _ := strings.Cut(in.Text(), "  ")
		if have := fmt.Sprintf("%x", sha256.Sum256(f.files[name])); have != sum {
			t.Errorf("%s has the sum %s, listed is %s", name, have, sum)
		}
		if name != provenance && subjects[name] != sum {
			t.Errorf("%s has the sum %s, in the provenance %q", name, sum, subjects[name])
		}
	}
	if want := (len(f.files)-1)/2 - 1; listed != want {
		t.Errorf("%d files are listed, want %d", listed, want)
	}
	return from
}

// push writes the images of the folder to a registry, each under its tag, or its digest if it has none.
func (f *folder) push(t *testing.T, registry string) {
	t.Helper()
	for file, archive := range f.files {
		artifact, ok := strings.CutSuffix(file, ".oci.tar")
		if !ok {
			continue
		}
		artifact = artifact[:strings.LastIndex(artifact, "-")]
		index, err := layout.ImageIndexFromPath(harness.UntarT(t, archive))
		if err != nil {
			t.Fatal(err)
		}
		list, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Manifests {
			to := registry + "/" + artifact + "@" + d.Digest.String()
			if tag := d.Annotations["org.opencontainers.image.ref.name"]; tag != "" {
				to = registry + "/" + artifact + ":" + tag
			}
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			if err := remote.Write(reference(t, to), img, remote.WithContext(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func reference(t *testing.T, text string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// lastLayer returns the last layer of an image: of a module's it is the module, of a signature's what is signed.
func lastLayer(t *testing.T, ref name.Reference) (img v1.Image, content []byte) {
	t.Helper()
	img, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) == 0 {
		t.Fatalf("%s: %d layers, %v", ref, len(layers), err)
	}
	r, err := layers[len(layers)-1].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if content, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return img, content
}

// pull gets a module by the reference in a resource, once its signature, in the registry beside it, is verified.
func (f *folder) pull(t *testing.T, url string) []byte {
	t.Helper()
	ref := reference(t, url)
	img, module := lastLayer(t, ref)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	signature, payload := lastLayer(t, ref.Context().Tag("sha256-"+digest.Hex+".sig"))
	manifest, err := signature.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	harness.VerifiedT(t, url, f.public, payload, manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	if !strings.Contains(string(payload), `"docker-manifest-digest":"`+digest.String()+`"`) {
		t.Errorf("%s: signed is %s", url, payload)
	}
	return module
}

// pulledChart pushes the folder's chart to a registry and pulls it from there, as helm push and helm pull do.
func (f *folder) pulledChart(t *testing.T, registry string) *chart.Chart {
	t.Helper()
	client, err := charts.NewClient(charts.ClientOptPlainHTTP())
	if err != nil {
		t.Fatal(err)
	}
	for file, archive := range f.files {
		base, ok := strings.CutSuffix(file, ".tgz")
		if !ok {
			continue
		}
		chartName, version, _ := strings.Cut(base, "-")
		ref := registry + "/" + chartName + ":" + version
		if _, err := client.Push(archive, ref); err != nil {
			t.Fatal(err)
		}
		got, err := client.Pull(ref)
		if err != nil {
			t.Fatal(err)
		}
		c, err := loader.LoadArchive(bytes.NewReader(got.Chart.Data))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatal("no chart")
	return nil
}

// TestInstallFromFolder installs from the folder that a release is, with nothing else: it verifies the files, pushes
// images and chart to an empty registry, renders the chart from there, and fetches the module that each resource names.
// A real Envoy runs the one for stock Envoy, and its statistics name the release and the commit of the provenance.
func TestInstallFromFolder(t *testing.T) {
	web := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(web.Close)
	address := web.Listener.Addr().String()
	f := folderT(t, address+"/warmgate")
	from := f.verify(t)
	f.push(t, address+"/warmgate")
	c := f.pulledChart(t, address+"/charts")
	images := regexp.MustCompile(regexp.QuoteMeta(address) + `/[^\s"]+`)
	shown := images.FindAllString(c.Metadata.Annotations["artifacthub.io/images"], -1)
	modules := map[string][]byte{}
	for values, artifact := range map[string]string{
		"gateway: higress\nhigress: {allRequests: true}\nconfig: {lb_policy: prefix_cache}": "warmgate-higress",
		"gateway: istio\nistio: {route: {hosts: [a.test]}}":                                 "warmgate-envoy",
		"gateway: envoy-gateway": "warmgate-envoy",
	} {
		text := string(texts(t, renderedOf(t, c, given(t, values))))
		urls := images.FindAllString(text, -1)
		if len(urls) != 1 || !slices.Contains(shown, urls[0]) {
			t.Fatalf("%s: the resources name %q, the chart %q:\n%s", values, urls, shown, text)
		}
		modules[artifact] = f.pull(t, urls[0])
		if !bytes.Equal(modules[artifact], f.files[artifact+".wasm"]) {
			t.Errorf("%s: %s is not %s.wasm", values, urls[0], artifact)
		}
	}
	file := filepath.Join(t.TempDir(), "pulled.wasm")
	if err := os.WriteFile(file, modules["warmgate-envoy"], 0o600); err != nil {
		t.Fatal(err)
	}
	g := harness.StartT(t, harness.Options{Module: file, Endpoints: harness.Models(t, 2), Config: `{"lb_policy":` +
		`"global_least_request","lb_config":{"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin"}}}`})
	harness.AwaitReason(t, g.URL(), "chosen")
	build := fmt.Sprintf("warmgate_build_info{version=%q,revision=%q} 1\n", c.Metadata.Version,
		from.Predicate.BuildDefinition.ExternalParameters["revision"])
	harness.Await(t, func() error {
		if page := g.PrometheusT(t); !strings.Contains(page, build) {
			return fmt.Errorf("no %s in %q", build, regexp.MustCompile(`.*build_info.*`).FindAllString(page, -1))
		}
		return nil
	})
}
