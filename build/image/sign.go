package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What cosign looks for: a layer of this type, with the signature of its content in an annotation, in an image whose
// tag is the digest of the signed one. See https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md.
const (
	payloadType  types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureKey string          = "dev.cosignproject.cosign/signature"
)

// publicFile is the public key, beside what is signed with the private one.
const publicFile = "cosign.pub"

// signer signs files and images; one without a key signs nothing.
type signer struct{ key *ecdsa.PrivateKey }

// readKey reads an ECDSA key on P-256 in PEM, as `openssl ecparam -genkey -name prime256v1` and `openssl genpkey` write
// it. Without a name there is none.
func readKey(name string) (*signer, error) {
	if name == "" {
		return &signer{}, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("image: key: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("image: key: %s: %w", name, err)
	}
	return &signer{key}, nil
}

// parseKey takes the first key in a text; openssl may write the curve's parameters in front.
func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch kind := block.Type; {
		case kind == "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case kind == "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case strings.HasPrefix(kind, "ENCRYPTED"):
			return nil, errors.New("the key is encrypted: one without a password is needed")
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if ec, ok := key.(*ecdsa.PrivateKey); ok && ec.Curve == elliptic.P256() {
			return ec, nil
		}
		return nil, errors.New("not an ECDSA key on P-256")
	}
	return nil, errors.New("no private key in PEM")
}

// sign returns what cosign verifies: in base64, the signature of the content's SHA-256. The same content always gets
// the same one (RFC 6979), so that signed releases can be compared, too.
func (s *signer) sign(content []byte) (string, error) {
	sum := sha256.Sum256(content)
	signature, err := s.key.Sign(nil, sum[:], crypto.SHA256)
	return base64.StdEncoding.EncodeToString(signature), err
}

// signatures returns a file with the signature of each of the files, and the public key.
func (s *signer) signatures(files []file) ([]file, error) {
	if s.key == nil {
		return nil, nil
	}
	public, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("image: key: %w", err)
	}
	signed := []file{{publicFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})}}
	for _, f := range files {
		signature, err := s.sign(f.content)
		if err != nil {
			return nil, fmt.Errorf("image: sign %s: %w", f.name, err)
		}
		signed = append(signed, file{f.name + ".sig", []byte(signature)})
	}
	return signed, nil
}

// images signs the images of an artifact.
func (s *signer) images(a *artifact) error {
	if s.key == nil {
		return nil
	}
	for i := range a.images {
		of := &a.images[i]
		signature, err := s.image(a, of)
		if err != nil {
			return fmt.Errorf("image: sign %s:%s: %w", a.name, of.tag, err)
		}
		a.signatures = append(a.signatures, *signature)
	}
	return nil
}

// image makes the signature of an image, which is one, too. It says nothing of a registry: the artifact's name is all
// that is known of where the image will be.
func (s *signer) image(a *artifact, of *image) (*image, error) {
	var payload struct {
		Critical struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
		Optional map[string]string `json:"optional"`
	}
	payload.Critical.Identity.Reference = a.name
	payload.Critical.Image.Digest = of.digest.String()
	payload.Critical.Type = "cosign container image signature"
	text, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	signature, err := s.sign(text)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(text, payloadType)
	diff, err := layer.DiffID()
	if err != nil {
		return nil, err
	}
	config, err := imageConfig(diff, a.created)
	if err != nil {
		return nil, err
	}
	signed, err := (&core{
		config: config, layers: []v1.Layer{layer}, annotations: []map[string]string{{signatureKey: signature}},
	}).build(a, types.OCIConfigJSON)
	if err != nil {
		return nil, err
	}
	signed.tag = "sha256-" + of.digest.Hex + ".sig"
	return signed, nil
}
