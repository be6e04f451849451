package kubeapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatIsContained(t *testing.T) {
	for name, tt := range map[string]struct {
		have, want string
		contained  bool
	}{
		"the same":                          {`{"a":{"b":[1,"x"]}}`, `{"a":{"b":[1,"x"]}}`, true},
		"fields that were filled in":        {`{"a":[{"b":1,"protocol":"TCP"}],"status":{}}`, `{"a":[{"b":1}]}`, true},
		"an empty map for none":             {`{}`, `{"a":{}}`, true},
		"an empty list for none":            {`{}`, `{"a":[]}`, true},
		"another value":                     {`{"a":1}`, `{"a":2}`, false},
		"another type":                      {`{"a":"1"}`, `{"a":1}`, false},
		"a missing field":                   {`{"a":1}`, `{"a":1,"b":2}`, false},
		"an entry too many":                 {`{"rules":[1,2]}`, `{"rules":[1]}`, false},
		"an entry too few":                  {`{"rules":[1]}`, `{"rules":[1,2]}`, false},
		"another order":                     {`{"rules":[2,1]}`, `{"rules":[1,2]}`, false},
		"a value where a map should be":     {`{"a":1}`, `{"a":{"b":1}}`, false},
		"a map where a list should be":      {`{"a":{"b":1}}`, `{"a":[1]}`, false},
		"a false that was left out":         {`{}`, `{"a":false}`, true},
		"nothing where a value should be":   {`{}`, `{"a":true}`, false},
		"a map where a value should be":     {`{"a":{}}`, `{"a":true}`, false},
		"a field that is wrong in an entry": {`{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var have, want any
			require.NoError(t, json.Unmarshal([]byte(tt.have), &have))
			require.NoError(t, json.Unmarshal([]byte(tt.want), &want))
			require.Equal(t, tt.contained, contains(have, want))
		})
	}
}

// store is an API server with at most one object, which takes whatever is applied.
type store struct {
	object  Object
	applied int
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPatch:
		s.applied++
		s.object = Object{}
		if err := json.NewDecoder(r.Body).Decode(&s.object); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	case s.object == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		_ = json.NewEncoder(w).Encode(s.object)
	}
}

func TestOnlyWhatIsNotAsItShouldBeIsApplied(t *testing.T) {
	s := &store{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	b := &bootstrap{Options: Options{Client: &Client{server: server.URL, http: server.Client(), time: time.Minute}}}
	want := applied{object: role("spore:x", []any{rule("", []string{"pods"}, "get")})}
	before := maps.Clone(want.object)
	apply := func(o applied, times int, why string) {
		t.Helper()
		s.applied, b.changed = 0, 0
		require.NoError(t, b.apply(context.Background(), o))
		require.Equal(t, times, s.applied, why)
		require.Equal(t, times, b.changed, why)
	}
	apply(want, 1, "it was not there")
	apply(want, 0, "it is there")
	require.Equal(t, before, want.object, "what is applied was not changed")

	s.object["metadata"].(map[string]any)["uid"] = "1-2-3"
	apply(want, 0, "the server has filled something in")
	s.object["rules"] = []any{}
	apply(want, 1, "somebody took a right away")
	s.object["rules"] = append(s.object["rules"].([]any), rule("", []string{"secrets"}, "get"))
	apply(want, 1, "somebody added a right")

	// An earlier version had a field that this one has not: only the hash tells.
	s.object = nil
	earlier := role("spore:x", []any{rule("", []string{"pods"}, "get")})
	earlier["metadata"].(map[string]any)["labels"] = map[string]any{"old": "yes"}
	apply(applied{object: earlier}, 1, "it was not there")
	apply(want, 1, "the label is not to stay")
}
