package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"

	felix "github.com/projectcalico/calico/felix/daemon"
	"github.com/projectcalico/calico/libcalico-go/lib/logutils"
	"github.com/projectcalico/calico/node/pkg/allocateip"
	"github.com/projectcalico/calico/node/pkg/health"
	"github.com/projectcalico/calico/node/pkg/lifecycle/startup"
	"github.com/projectcalico/calico/pkg/buildinfo"
)

// felixConfig is where felix looks for a file of settings; there need be none, as FELIX_* in the environment carry them.
const felixConfig = "/etc/calico/felix.cfg"

// node is calico-node with those flags of upstream's program that a node without BGP uses; it returns the exit status.
// Settings come from the environment, as upstream documents them.
func node(args []string) int {
	// Without output of its own flag says what is wrong in the error.
	flags := flag.NewFlagSet("calico-node", flag.ContinueOnError)
	var (
		version  = flags.Bool("v", false, "print the version")
		runFelix = flags.Bool("felix", false, "run felix")
		start    = flags.Bool("startup", false, "describe this node to the cluster, and end")
		allocate = flags.Bool("allocate-tunnel-addrs", false, "keep the tunnels of this node supplied with addresses; after -startup when both are given")
		once     = flags.Bool("allocate-tunnel-addrs-run-once", false, "end once they have addresses")
		live     = flags.Bool("felix-live", false, "end with status 0 if felix is alive")
		ready    = flags.Bool("felix-ready", false, "end with status 0 if felix has programmed the node")
	)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	logrus.SetOutput(os.Stdout)
	log := func(component string) { logrus.SetFormatter(&logutils.Formatter{Component: component}) }
	switch {
	case *version:
		fmt.Println(buildinfo.Version)
	case *live || *ready:
		health.Run(false, false, *ready, *live, false, false, 0)
	case *runFelix:
		log("felix")
		felix.Run(felixConfig, buildinfo.Version, buildinfo.BuildDate, buildinfo.GitRevision)
	case *start || *allocate:
		if *start {
			log("startup")
			startup.Run()
		}
		if !*allocate {
			break
		}
		log("tunnel-ip-allocator")
		// A nil channel is upstream's sign for one pass.
		var done chan struct{}
		if !*once {
			done = make(chan struct{})
		}
		allocateip.Run(done)
	default:
		fmt.Fprintln(os.Stderr, "calico-node: say what to do")
		flags.PrintDefaults()
		return 2
	}
	return 0
}
