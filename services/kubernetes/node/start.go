package node

import (
	"path/filepath"

	"spore/agent/renewal"
	"spore/services/kubernetes/etcd/origin"
	"spore/services/rendering"
)

// Kept is what the node keeps of a program that its rendering depends on.
var Kept = map[string]rendering.Kept{
	"etcd": func(root string) (any, error) { return origin.Dir(filepath.Join(root, origin.Data)).Read() },
}

// Before is what has to be done before the configuration of a program is written.
var Before = map[string]rendering.Before{"kubelet": dropForeign}

// dropForeign removes certificates of the kubelet, which it asks for by itself, where another authority signs now.
func dropForeign(root string, authority func(name string) ([]byte, error)) ([]string, error) {
	dir := filepath.Join(root, "/var/lib/kubelet")
	return renewal.DropForeign([]renewal.Own{
		{Authority: "kubernetes-client.crt", File: filepath.Join(dir, "pki/kubelet-client-current.pem"), With: []string{filepath.Join(dir, "kubeconfig")}},
		{Authority: "kubelet-serving.crt", File: filepath.Join(dir, "pki/kubelet-server-current.pem")},
	}, authority)
}
