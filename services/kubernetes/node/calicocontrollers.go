package node

import (
	"bytes"
	"fmt"

	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

// calicoControllers renders the kubeconfig of what takes back the addresses of pods and nodes that are gone, and the
// environment that names it (libcalico-go/lib/apiconfig).
func calicoControllers(in rendering.Input) (map[string]rendering.File, error) {
	kubeconfig, err := client.Kubeconfig("calico-controllers", in.SecretPath("calico-controllers-certificate"), in.SecretPath("calico-controllers-key"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, kv := range [][2]string{{"KUBECONFIG", in.Dir + "/kubeconfig"}, {"DATASTORE_TYPE", "kubernetes"}} {
		fmt.Fprintf(&b, "%s=%s\n", kv[0], environmentValue(kv[1]))
	}
	return map[string]rendering.File{"environment": {Data: b.Bytes(), Mode: 0o644}, "kubeconfig": kubeconfig}, nil
}
