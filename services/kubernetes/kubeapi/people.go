package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"spore/services/kubernetes"
)

// peopleBindings give people their rights in all namespaces.
func peopleBindings() (out []applied) {
	for _, right := range kubernetes.Rights() {
		group := kubernetes.PersonGroup(right, "")
		out = append(out, applied{object: binding(group, right, "Group", group)})
	}
	return out
}

// namespaceBindings give people their rights in one namespace. Which namespaces there will be is not known when a
// certificate is made, so each has a group for each right.
func namespaceBindings(namespace string) (out []Object) {
	for _, right := range kubernetes.Rights() {
		o := binding(kubernetes.PersonGroup(right, ""), right, "Group", kubernetes.PersonGroup(right, namespace))
		o["kind"] = "RoleBinding"
		o["metadata"].(map[string]any)["namespace"] = namespace
		out = append(out, o)
	}
	return out
}

// followNamespaces gives each namespace its bindings when it comes.
func (b *bootstrap) followNamespaces(ctx context.Context) error {
	listed := func() error { return nil }
	return b.Client.follow(ctx, "/api/v1/namespaces", listed, func(deleted bool, data json.RawMessage) error {
		var n struct {
			meta
			Status struct {
				Phase string `json:"phase"`
			} `json:"status"`
		}
		if err := json.Unmarshal(data, &n); err != nil {
			return fmt.Errorf("namespace: %w", err)
		}
		if deleted || n.Status.Phase == "Terminating" {
			return nil
		}
		for _, o := range namespaceBindings(n.Metadata.Name) {
			if err := b.bind(ctx, o); err != nil {
				return err
			}
		}
		return nil
	})
}

// bind applies a binding where it is not there as it should be.
func (b *bootstrap) bind(ctx context.Context, o Object) error {
	object, err := marked(o)
	if err != nil {
		return err
	}
	if there, err := b.Client.present(ctx, object); err == nil && there {
		return nil
	}
	err = b.Client.Apply(ctx, object, true)
	switch {
	case isStatus(err, http.StatusNotFound), isStatus(err, http.StatusForbidden), isStatus(err, http.StatusConflict):
		// The namespace goes just now, or another master was faster; a change of it comes as an event of its own.
		b.Say(fmt.Sprintf("%s was not applied: %v", nameOf(o), err))
		return nil
	case err != nil:
		return fmt.Errorf("apply %s: %w", nameOf(o), err)
	}
	return nil
}
