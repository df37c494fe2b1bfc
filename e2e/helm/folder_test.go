package helm

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/name"
	charts "helm.sh/helm/v3/pkg/registry"
)

func TestX(t *testing.T) {
	_ = registry.New
	_ = layout.ImageIndexFromPath
	_ = remote.Image
	_ = name.NewTag
	_, _ = charts.NewClient()
}
