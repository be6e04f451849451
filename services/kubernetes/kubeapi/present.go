package kubeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
)

// appliedAnnotation is the hash of what was applied. It tells an object that is as it should be from one that also has what
// an earlier version of it said, which only applying takes away.
const appliedAnnotation = "spore/applied"

// marked is the object with its hash.
func marked(o Object) (Object, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("internal error: %s: %w", nameOf(o), err)
	}
	sum := sha256.Sum256(data)
	out := maps.Clone(o)
	metadata, _ := o["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	annotations := map[string]any{}
	if have, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(have)
	}
	annotations[appliedAnnotation] = hex.EncodeToString(sum[:])
	metadata["annotations"] = annotations
	out["metadata"] = metadata
	return out, nil
}

// present asks whether the API server has the object just as it would be applied. Applying costs it a hundred times more, even
// when nothing changes: that is merging by the schema, and for each definition of a kind it describes its whole API anew.
func (c *Client) present(ctx context.Context, o Object) (bool, error) {
	path, err := pathOf(o)
	if err != nil {
		return false, err
	}
	var have, want any
	if err := c.get(ctx, path, &have); isStatus(err, http.StatusNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return false, fmt.Errorf("internal error: %s: %w", nameOf(o), err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		return false, fmt.Errorf("internal error: %s: %w", nameOf(o), err)
	}
	return contains(have, want), nil
}

// contains tells whether every field of want is in have. Lists are as long as each other, since an entry too many may be a
// right too many; their entries may have fields that the API server has filled in.
func contains(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0
		}
		for key, value := range want {
			if !contains(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		if len(have) != len(want) {
			return false
		}
		for i := range want {
			if !contains(have[i], want[i]) {
				return false
			}
		}
		return true
	}
	if have == nil { // The API server leaves out what says nothing.
		return want == nil || reflect.ValueOf(want).IsZero()
	}
	return have == want
}
