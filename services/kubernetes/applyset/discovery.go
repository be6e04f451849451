package applyset

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"spore/services/kubernetes/kubeapi"
)

// resource is how the API calls a kind in its paths.
type resource struct {
	// version is the apiVersion.
	version    string
	plural     string
	namespaced bool
}

// discovery asks the API server which kinds it serves, and remembers it until it is told to forget.
type discovery struct {
	api API
	// versions has the kinds of each apiVersion, nil for one that is not served.
	versions map[string]map[string]resource
}

func (d *discovery) forget() { d.versions = nil }

// base is the path of an apiVersion.
func base(version string) string {
	if strings.Contains(version, "/") {
		return "/apis/" + version
	}
	return "/api/" + version
}

// find is how a kind is called; ok is false when the server does not serve it.
func (d *discovery) find(ctx context.Context, version, kind string) (r resource, ok bool, err error) {
	kinds, known := d.versions[version]
	if !known {
		if kinds, err = d.read(ctx, version); err != nil {
			return r, false, err
		}
		if d.versions == nil {
			d.versions = map[string]map[string]resource{}
		}
		d.versions[version] = kinds
	}
	r, ok = kinds[kind]
	return r, ok, nil
}

func (d *discovery) read(ctx context.Context, version string) (map[string]resource, error) {
	var list struct {
		Resources []struct {
			Name       string   `json:"name"`
			Kind       string   `json:"kind"`
			Namespaced bool     `json:"namespaced"`
			Verbs      []string `json:"verbs"`
		} `json:"resources"`
	}
	err := d.api.Do(ctx, kubeapi.Call{Method: http.MethodGet, Path: base(version), Into: &list})
	if kubeapi.IsStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kinds of %s: %w", version, err)
	}
	out := map[string]resource{}
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") {
			out[r.Kind] = resource{version, r.Name, r.Namespaced}
		}
	}
	return out, nil
}

// preferred is how a kind of a group is called by the version that the server prefers.
func (d *discovery) preferred(ctx context.Context, group, kind string) (resource, bool, error) {
	if group == "" {
		return d.find(ctx, "v1", kind)
	}
	var g struct {
		Versions []struct {
			GroupVersion string `json:"groupVersion"`
		} `json:"versions"`
	}
	err := d.api.Do(ctx, kubeapi.Call{Method: http.MethodGet, Path: "/apis/" + group, Into: &g})
	if kubeapi.IsStatus(err, http.StatusNotFound) {
		return resource{}, false, nil
	}
	if err != nil {
		return resource{}, false, fmt.Errorf("versions of %s: %w", group, err)
	}
	for _, v := range g.Versions { // the preferred one is first
		if r, ok, err := d.find(ctx, v.GroupVersion, kind); ok || err != nil {
			return r, ok, err
		}
	}
	return resource{}, false, nil
}

// collection is the path of all objects of a kind, object that of one.
func (r resource) collection() string { return base(r.version) + "/" + r.plural }

func (r resource) object(m member) string {
	if r.namespaced {
		return base(r.version) + "/namespaces/" + m.namespace + "/" + r.plural + "/" + m.name
	}
	return r.collection() + "/" + m.name
}
