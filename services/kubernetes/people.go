package kubernetes

import "slices"

// Rights are what people may be given besides everything, the least first: the names of the ClusterRoles that
// Kubernetes has for people (kubernetes.io, "Using RBAC Authorization", user-facing roles).
func Rights() []string { return []string{"view", "edit", "admin"} }

// PersonGroup is the group of people who have a right: in one namespace, or in all where that is empty. It stands in
// their certificates, and the masters bind the right to it.
func PersonGroup(right, namespace string) string {
	group := "spore:" + right
	if namespace != "" {
		group += ":" + namespace
	}
	return group
}

// IsRight tells whether people may be given a right by its name.
func IsRight(name string) bool { return slices.Contains(Rights(), name) }
