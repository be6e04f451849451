// Program kube is all of Kubernetes that a node runs, as one file: it is the program by whose name it is called. The control
// plane's processes share its text in memory, and the image carries their common code once.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // time zones of CronJobs; the image has no zone files

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// servers are the programs that run until they are stopped.
var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if server, ok := servers[name]; ok {
		os.Exit(cli.Run(server()))
	}
	if name != "kubectl" {
		fmt.Fprintf(os.Stderr, "%s: call it by the name of a program of Kubernetes, such as kubectl\n", name)
		os.Exit(2)
	}
	// kubectl reads its configuration, and finds plugins, before flags are parsed, and logs meanwhile.
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		util.CheckErr(err)
	}
	util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
}
