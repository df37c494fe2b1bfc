// Image packs the built artifacts for those who install them: OCI images, checksums and lists of what is inside. It
// needs no Docker and no network but for a push, and the same modules give the same bytes everywhere.
//
//	go run . layout           write build/out/image: an OCI layout for each artifact, with both forms of its image
//	go run . release          write build/out/release: modules, images, SBOMs, the Helm chart, checksums, provenance
//	go run . push REGISTRY    push all images below REGISTRY, as registry.example.com/warmgate
//
//	go run . layout-program           the same for the image of the program warmgate, which containers run
//	go run . push-program REGISTRY
//
// The flag -root names the source tree; `make wasm` has put the modules into its build/out. -out is where the release
// goes instead, and -key a private key that signs images and files. SOURCE_DATE_EPOCH, seconds since 1970, is the time
// that images and SBOMs are given; without it they are of 1970. REVISION is the commit, where there is no repository;
// BUILDER a URI of what builds; and REGISTRY where the images will be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.yaml.in/yaml/v3"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", "../..", "the source `folder`")
	flag.StringVar(&o.out, "out", "", "the `folder` that a release is written to; what is there is deleted")
	flag.StringVar(&o.key, "key", "", "a `file` with an ECDSA key on P-256 in PEM, which signs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct{ root, out, key string }

// run does what the arguments say. It prints a line for each image: its name, digest and size; and whether they are
// signed.
func run(ctx context.Context, o options, args []string, out io.Writer) error {
	if o.out == "" {
		o.out = filepath.Join(o.root, "build/out/release")
	}
	signer, err := readKey(o.key)
	if err != nil {
		return err
	}
	signed := "nothing is signed: no key is given\n"
	if signer.key != nil {
		signed = "signed with " + o.key + "\n"
	}
	var do func(artifacts []*artifact) error
	switch {
	case len(args) == 1 && args[0] == "layout-program", len(args) == 2 && args[0] == "push-program":
		done, err := containers(ctx, o, signer, args)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, done+signed)
		return err
	case len(args) == 1 && args[0] == "layout":
		do = func(artifacts []*artifact) error { return layouts(filepath.Join(o.root, "build/out/image"), artifacts) }
	case len(args) == 1 && args[0] == "release":
		do = func(artifacts []*artifact) error { return release(o, signer, artifacts) }
	case len(args) == 2 && args[0] == "push":
		do = func(artifacts []*artifact) error { return push(ctx, args[1], artifacts) }
	default:
		return errors.New("usage: image [-root FOLDER] [-out FOLDER] [-key FILE] " +
			"layout | release | push REGISTRY | layout-program | push-program REGISTRY")
	}
	artifacts, err := read(o.root)
	if err != nil {
		return err
	}
	for _, a := range artifacts {
		if err := errors.Join(a.pack(), signer.images(a)); err != nil {
			return err
		}
	}
	if err := do(artifacts); err != nil {
		return err
	}
	_, err = io.WriteString(out, list(artifacts)+signed)
	return err
}

// artifact is one of the modules, with all that is made of it.
type artifact struct {
	name       string // warmgate-envoy or warmgate-higress
	version    string
	created    time.Time
	module     []byte
	images     []image
	bills      []image // the SBOM of each image
	signatures []image // of the images, with a key
}

// versionOf reads the version from what Higress's console shows, and says of when things are to be.
func versionOf(root string) (version string, created time.Time, err error) {
	text, err := os.ReadFile(filepath.Join(root, "build/spec.yaml"))
	if err != nil {
		return "", created, fmt.Errorf("image: %w", err)
	}
	var spec struct{ Info struct{ Version string } }
	if err := yaml.Unmarshal(text, &spec); err != nil {
		return "", created, fmt.Errorf("image: build/spec.yaml: %w", err)
	}
	created, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	return spec.Info.Version, created, err
}

// read reads the two modules.
func read(root string) ([]*artifact, error) {
	version, created, err := versionOf(root)
	if err != nil {
		return nil, err
	}
	var artifacts []*artifact
	for _, host := range []string{"envoy", "higress"} {
		a := &artifact{name: "warmgate-" + host, version: version, created: created}
		if a.module, err = os.ReadFile(filepath.Join(root, "build/out", a.name+".wasm")); err != nil {
			return nil, fmt.Errorf("image: %w (run make wasm)", err)
		}
		artifacts = append(artifacts, a)
	}
	return artifacts, nil
}

// sourceDate is the time that SOURCE_DATE_EPOCH names; see https://reproducible-builds.org/specs/source-date-epoch.
func sourceDate(text string) (time.Time, error) {
	if text == "" {
		text = "0"
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("image: SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// push writes all images to a registry, with the credentials that `docker login` or `podman login` has left. What is
// there under the same tag is replaced.
func push(ctx context.Context, registry string, artifacts []*artifact) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, a := range artifacts {
		for _, image := range slices.Concat(a.images, a.signatures) {
			ref, err := name.NewTag(registry + "/" + a.name + ":" + image.tag)
			if err != nil {
				return fmt.Errorf("image: %w", err)
			}
			if err := remote.Write(ref, image.Image, options...); err != nil {
				return fmt.Errorf("image: push %s: %w", ref, err)
			}
		}
		// Behind the images that they name: a registry that does not know what is attached to what is told by a tag.
		for i := range a.bills {
			ref, err := name.NewDigest(registry + "/" + a.name + "@" + a.bills[i].digest.String())
			if err != nil {
				return fmt.Errorf("image: %w", err)
			}
			if err := remote.Write(ref, a.bills[i].Image, options...); err != nil {
				return fmt.Errorf("image: push the SBOM %s: %w", ref, err)
			}
		}
	}
	return nil
}
