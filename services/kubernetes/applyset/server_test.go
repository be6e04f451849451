package applyset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes/kubeapi"
)

// server is as much of an API server as the set needs. It takes an object as it is given, and its field manager as
// owner of all of it.
type server struct {
	t       *testing.T
	objects map[string]map[string]any
	serial  int
	// calls are those that changed something, and refuse has the words for paths that are refused.
	calls  []string
	refuse map[string]string
	// hide has the words for paths that are not read.
	hide map[string]string
	// kinds are those that are served, by apiVersion.
	kinds map[string][]string
	// asked counts all calls; away has the server not answer.
	asked int
	away  bool
}

var errAway = errors.New("dial tcp 127.0.0.1:6444: connection refused")

func newServer(t *testing.T) *server {
	return &server{t: t, objects: map[string]map[string]any{}, refuse: map[string]string{}, hide: map[string]string{}, kinds: map[string][]string{
		"v1":                      {"ConfigMap configmaps", "Namespace namespaces -", "Service services"},
		"apps/v1":                 {"Deployment deployments"},
		"apiextensions.k8s.io/v1": {"CustomResourceDefinition customresourcedefinitions -"},
	}}
}

func status(code int, format string, args ...any) error {
	return fmt.Errorf("METHOD PATH: %w", &kubeapi.StatusError{Code: code, Message: fmt.Sprintf(format, args...)})
}

func (s *server) Do(_ context.Context, r kubeapi.Call) error {
	s.asked++
	if s.away {
		return errAway
	}
	path, _, _ := strings.Cut(r.Path, "?")
	u, err := url.Parse(r.Path)
	require.NoError(s.t, err)
	body := map[string]any{}
	if r.Body != nil {
		data, err := json.Marshal(r.Body)
		require.NoError(s.t, err)
		require.NoError(s.t, json.Unmarshal(data, &body))
	}
	if text := s.hide[path]; text != "" && r.Method == http.MethodGet {
		return status(http.StatusInternalServerError, "%s", text)
	}
	if r.Method != http.MethodGet {
		if text := s.refuse[path]; text != "" {
			return status(http.StatusUnprocessableEntity, "%s", text)
		}
		s.calls = append(s.calls, r.Method+" "+path)
	}
	answer, err := s.answer(r, path, u.Query().Get("fieldManager"), body)
	if err != nil || r.Into == nil {
		return err
	}
	data, err := json.Marshal(answer)
	require.NoError(s.t, err)
	return json.Unmarshal(data, r.Into)
}

func (s *server) answer(r kubeapi.Call, path, manager string, body map[string]any) (any, error) {
	there := s.objects[path]
	switch r.Method {
	case http.MethodGet:
		if out := s.discovery(path); out != nil {
			return out, nil
		}
		if there == nil {
			return nil, status(http.StatusNotFound, "not found")
		}
		return there, nil
	case http.MethodPost:
		path += "/" + metadata(body)["name"].(string)
		if s.objects[path] != nil {
			return nil, status(http.StatusConflict, "already exists")
		}
		return s.store(path, body, manager, "Update"), nil
	case http.MethodPut:
		if there == nil || metadata(there)["resourceVersion"] != metadata(body)["resourceVersion"] {
			return nil, status(http.StatusConflict, "the object has been modified")
		}
		return s.store(path, body, manager, "Update"), nil
	case http.MethodPatch:
		if r.Type == "application/merge-patch+json" {
			if metadata(there)["resourceVersion"] != metadata(body)["resourceVersion"] {
				return nil, status(http.StatusConflict, "the object has been modified")
			}
			delete(metadata(there)["labels"].(map[string]any), partOfLabel)
			return there, nil
		}
		if r.Type == "application/apply-patch+yaml" && body["kind"] == "CustomResourceDefinition" {
			s.kinds["plant.example/v1"] = []string{"Pump pumps"}
		}
		return s.store(path, body, manager, "Apply"), nil
	case http.MethodDelete:
		only := body["preconditions"].(map[string]any)
		require.Equal(s.t, metadata(there)["uid"], only["uid"])
		if metadata(there)["resourceVersion"] != only["resourceVersion"] {
			return nil, status(http.StatusConflict, "the object has been modified")
		}
		delete(s.objects, path)
		return nil, nil
	}
	return nil, status(http.StatusMethodNotAllowed, "no")
}

func metadata(o map[string]any) map[string]any { return o["metadata"].(map[string]any) }

// store keeps an object as a field manager gives it.
func (s *server) store(path string, o map[string]any, manager, operation string) map[string]any {
	s.serial++
	m := metadata(o)
	m["uid"] = "uid of " + path
	m["resourceVersion"] = strconv.Itoa(s.serial)
	m["managedFields"] = []any{map[string]any{"manager": manager, "operation": operation, "fieldsV1": map[string]any{"f:all": map[string]any{}}}}
	s.objects[path] = o
	return o
}

func (s *server) discovery(path string) any {
	for version, kinds := range s.kinds {
		group, _, _ := strings.Cut(version, "/")
		if path == "/apis/"+group && version != "v1" {
			return map[string]any{"versions": []any{map[string]any{"groupVersion": version}}}
		}
		if path != base(version) {
			continue
		}
		var list []any
		for _, k := range kinds {
			words := strings.Fields(k)
			list = append(list, map[string]any{"kind": words[0], "name": words[1], "namespaced": len(words) == 2}, map[string]any{"kind": "Scale", "name": words[1] + "/scale"})
		}
		return map[string]any{"resources": list}
	}
	return nil
}

func (s *server) List(_ context.Context, path, selector string, each func(json.RawMessage) error) error {
	s.asked++
	if s.away {
		return errAway
	}
	if text := s.refuse[path]; text != "" {
		return status(http.StatusServiceUnavailable, "%s", text)
	}
	key, value, _ := strings.Cut(selector, "=")
	begin := path[:strings.LastIndex(path, "/")]
	plural := path[len(begin):]
	for _, p := range slices.Sorted(maps.Keys(s.objects)) {
		dir := p[:strings.LastIndex(p, "/")]
		labels, _ := metadata(s.objects[p])["labels"].(map[string]any)
		if !strings.HasPrefix(p, begin) || !strings.HasSuffix(dir, plural) || labels[key] != value {
			continue
		}
		data, err := json.Marshal(s.objects[p])
		require.NoError(s.t, err)
		if err := each(data); err != nil {
			return err
		}
	}
	return nil
}

// changed are the calls that changed something besides the parent, since the last time.
func (s *server) changed() []string {
	out := slices.DeleteFunc(s.calls, func(c string) bool { return strings.Contains(c, collectionPath) })
	s.calls = nil
	return out
}

// touch changes an object as another field manager would.
func (s *server) touch(path string) {
	require.NotNil(s.t, s.objects[path], path)
	metadata(s.objects[path])["managedFields"] = []any{
		map[string]any{"manager": Manager, "operation": "Apply", "fieldsV1": map[string]any{"f:less": map[string]any{}}},
		map[string]any{"manager": "kubectl", "operation": "Update", "fieldsV1": map[string]any{"f:data": map[string]any{}}},
	}
}
