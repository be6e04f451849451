package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry is how registries are reached.
type Registry struct {
	// Transport does the requests.
	Transport http.RoundTripper
	// Keychain knows the user's logins; nobody is logged in when nil.
	Keychain authn.Keychain
}

// Pull fetches an image that a reference NAME:TAG@sha256:DIGEST names, and writes the finished archive. The image is known
// by NAME:TAG and by NAME@sha256:DIGEST afterwards.
func Pull(ctx context.Context, w io.Writer, reference string, from Registry) (Image, error) {
	tagged, _, _ := strings.Cut(reference, "@")
	ref, err := name.NewDigest(reference)
	if err != nil {
		return Image{}, err
	}
	keychain := from.Keychain
	if keychain == nil {
		keychain = authn.NewMultiKeychain()
	}
	// Each blob is compared with its digest again where it is read.
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(from.Transport), remote.WithAuthFromKeychain(keychain)}
	get, err := remote.Get(ref, options...)
	if err != nil {
		return Image{}, fmt.Errorf("ask the registry: %w", err)
	}
	top := descriptor{MediaType: string(get.MediaType), Digest: get.Digest.String(), Size: get.Size}
	open := func(d descriptor) (io.ReadCloser, error) {
		at := ref.Context().Digest(d.Digest)
		if isIndex(d.MediaType) || isManifest(d.MediaType) {
			got, err := remote.Get(at, options...)
			if err != nil {
				return nil, fmt.Errorf("ask the registry: %w", err)
			}
			return io.NopCloser(bytes.NewReader(got.Manifest)), nil
		}
		layer, err := remote.Layer(at, options...)
		if err != nil {
			return nil, fmt.Errorf("ask the registry: %w", err)
		}
		r, err := layer.Compressed()
		if err != nil {
			return nil, fmt.Errorf("ask the registry: %w", err)
		}
		return r, nil
	}
	return finish(w, []string{tagged, ref.Context().Name() + "@" + top.Digest}, top, open)
}
