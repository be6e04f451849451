package kubeapi

import "fmt"

// resource is how the API calls a kind in its paths.
type resource struct {
	plural     string
	namespaced bool
}

// resources are the kinds that the bootstrap applies, by apiVersion and kind.
var resources = map[[2]string]resource{
	{"v1", "Namespace"}:                                                     {"namespaces", false},
	{"v1", "Node"}:                                                          {"nodes", false},
	{"v1", "Service"}:                                                       {"services", true},
	{"v1", "ConfigMap"}:                                                     {"configmaps", true},
	{"discovery.k8s.io/v1", "EndpointSlice"}:                                {"endpointslices", true},
	{"rbac.authorization.k8s.io/v1", "ClusterRole"}:                         {"clusterroles", false},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding"}:                  {"clusterrolebindings", false},
	{"rbac.authorization.k8s.io/v1", "Role"}:                                {"roles", true},
	{"rbac.authorization.k8s.io/v1", "RoleBinding"}:                         {"rolebindings", true},
	{"storage.k8s.io/v1", "CSIDriver"}:                                      {"csidrivers", false},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"}:        {"validatingadmissionpolicies", false},
	{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"}: {"validatingadmissionpolicybindings", false},
	{"storage.k8s.io/v1", "StorageClass"}:                                   {"storageclasses", false},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition"}:                 {"customresourcedefinitions", false},
	{"crd.projectcalico.org/v1", "IPPool"}:                                  {"ippools", false},
	{"crd.projectcalico.org/v1", "FelixConfiguration"}:                      {"felixconfigurations", false},
}

// pathOf is the path of an object.
func pathOf(o Object) (string, error) {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	r, ok := resources[[2]string{version, kind}]
	if !ok {
		return "", fmt.Errorf("internal error: %s of %s is not in the table of resources", kind, version)
	}
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	if name == "" || r.namespaced != (namespace != "") {
		return "", fmt.Errorf("internal error: %s %q has a wrong name or namespace", kind, name)
	}
	path := "/apis/" + version
	if version == "v1" {
		path = "/api/v1"
	}
	if r.namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.plural + "/" + name, nil
}

// nameOf is how messages call an object.
func nameOf(o Object) string {
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return kind + " " + name
}
