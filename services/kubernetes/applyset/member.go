package applyset

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"
)

// member names an object of the set.
type member struct{ group, kind, namespace, name string }

// memberOf is the name of an object.
func memberOf(o map[string]any) member {
	version, _ := o["apiVersion"].(string)
	group, _, ok := strings.Cut(version, "/")
	if !ok {
		group = ""
	}
	m := member{group: group}
	m.kind, _ = o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	m.namespace, _ = metadata["namespace"].(string)
	m.name, _ = metadata["name"].(string)
	return m
}

// groupKind is the kind as KEP-3659 writes it: Deployment.apps, or ConfigMap.
func (m member) groupKind() string {
	if m.group == "" {
		return m.kind
	}
	return m.kind + "." + m.group
}

func (m member) String() string {
	if m.namespace == "" {
		return m.groupKind() + " " + m.name
	}
	return m.groupKind() + " " + m.namespace + "/" + m.name
}

// Order in which kinds are applied; they are pruned the other way round. What others lie in or are of comes first, and
// what the API server asks before it takes anything last: whoever answers it is to be there.
const (
	orderNamespace = iota
	orderDefinition
	orderGround
	orderRest
	orderGate
)

// order is the place of a kind.
func (m member) order() int {
	switch m.group + "/" + m.kind {
	case "/Namespace":
		return orderNamespace
	case "apiextensions.k8s.io/CustomResourceDefinition":
		return orderDefinition
	case "/ConfigMap", "/LimitRange", "/PersistentVolume", "/PersistentVolumeClaim", "/ResourceQuota", "/Secret",
		"/ServiceAccount",
		"scheduling.k8s.io/PriorityClass", "storage.k8s.io/StorageClass",
		"rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
		"rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/RoleBinding":
		return orderGround
	}
	if m.group == "admissionregistration.k8s.io" || m.group == "apiregistration.k8s.io" {
		return orderGate
	}
	return orderRest
}

// mark tells an object that is as the server answered when it was applied from one that is not: it is another object
// where the uid differs, and somebody has changed a field of ours where we own others.
type mark struct {
	uid   string
	owned [sha256.Size]byte
}

// object is what is read of an object of the API.
type object struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		ManagedFields     []struct {
			Manager   string          `json:"manager"`
			Operation string          `json:"operation"`
			FieldsV1  json.RawMessage `json:"fieldsV1"`
		} `json:"managedFields"`
	} `json:"metadata"`
}

// mark is the object's; ours is false when our field manager has applied none of it.
func (o *object) mark() (m mark, ours bool) {
	m.uid = o.Metadata.UID
	for _, f := range o.Metadata.ManagedFields {
		if f.Manager == Manager && f.Operation == "Apply" {
			var b bytes.Buffer
			if json.Compact(&b, f.FieldsV1) != nil {
				return m, true
			}
			m.owned = sha256.Sum256(b.Bytes())
			return m, true
		}
	}
	return m, false
}

// found tells whether the object was there before the folder had it: somebody else has made it, or it says so since it
// was applied first.
func (o *object) found() bool {
	_, ours := o.mark()
	return !ours || o.Metadata.Annotations[foundAnnotation] == "true"
}

// stays says why the object stays when the folder does not have it any more; empty when it is removed.
func (o *object) stays() string {
	switch {
	case o.Metadata.Annotations[pruneAnnotation] == pruneNever:
		return "says " + pruneAnnotation + ": " + pruneNever
	case o.Metadata.Annotations[foundAnnotation] == "true":
		return "was there before the folder had it"
	}
	return ""
}
