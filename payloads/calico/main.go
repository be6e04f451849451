// Program calico is what Kubernetes needs of Calico, in one file: the node's agent felix with the steps before it, the CNI
// and IPAM plugins, the collection of leaked addresses, and the CustomResourceDefinitions of the objects that they read. It
// is the program by whose name it is called.
//
// BIRD and confd (BGP), eBPF, Typha and the node's status reporter are left out: pods talk through VXLAN, and felix reads
// the API itself.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/projectcalico/calico/cni-plugin/pkg/ipamplugin"
	"github.com/projectcalico/calico/cni-plugin/pkg/plugin"
	"github.com/projectcalico/calico/pkg/buildinfo"
)

const usage = `calico crds               the definitions of Calico's objects, as one JSON document a line
calico kube-controllers   take back addresses of pods and nodes that are gone, until SIGTERM; -leak-grace DURATION
calico version            the version of Calico
Without an argument it is a CNI plugin. It is other programs by the names calico-ipam and calico-node.
`

func main() {
	switch filepath.Base(os.Args[0]) {
	case "calico-node":
		os.Exit(node(os.Args[1:]))
	case "calico-ipam":
		ipamplugin.Main(buildinfo.Version)
		return
	}
	// A container runtime calls plugins without arguments. /usr/bin/calico and the plugin have one name.
	if len(os.Args) == 1 && os.Getenv("CNI_COMMAND") != "" || len(os.Args) > 1 && os.Args[1][0] == '-' {
		plugin.Main(buildinfo.Version)
		return
	}
	os.Exit(command(os.Args[1:]))
}

// command is what people and the node's agent call; it returns the exit status.
func command(args []string) int {
	switch {
	case len(args) > 0 && args[0] == "kube-controllers":
		return controllers(args[1:])
	case len(args) == 1 && args[0] == "crds":
		if err := printCRDs(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "calico:", err)
			return 1
		}
	case len(args) == 1 && args[0] == "version":
		fmt.Println(buildinfo.Version)
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	return 0
}
