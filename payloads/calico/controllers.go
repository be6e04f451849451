package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/projectcalico/calico/kube-controllers/pkg/config"
	nodecontroller "github.com/projectcalico/calico/kube-controllers/pkg/controllers/node"
	"github.com/projectcalico/calico/kube-controllers/pkg/controllers/utils"
	"github.com/projectcalico/calico/kube-controllers/pkg/converter"
	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"github.com/projectcalico/calico/libcalico-go/lib/clientv3"
	"github.com/projectcalico/calico/libcalico-go/lib/logutils"
)

// leakGrace is how long an address without a pod may stay allocated before it counts as leaked; upstream's default.
const leakGrace = 15 * time.Minute

// Requests a second, as upstream's program has them: collecting after the loss of a large node needs many.
const (
	calicoQPS       = 500
	kubernetesQPS   = 100
	kubernetesBurst = 200
)

// controllers runs the one controller of upstream's kube-controllers that this datastore needs: it takes back the addresses
// of pods that vanished without the plugin being called, and the address blocks of nodes that were deleted. Several may run
// at once, since each release names the revision of the block that it was decided on. It ends with SIGTERM and returns the
// exit status. KUBECONFIG names its client.
func controllers(args []string) int {
	flags := flag.NewFlagSet("calico kube-controllers", flag.ContinueOnError)
	grace := flags.Duration("leak-grace", leakGrace, "how long an address without a pod may stay allocated")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	logutils.ConfigureFormatter("kube-controllers")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := runNodeController(ctx, *grace); err != nil {
		logrus.WithError(err).Error("Garbage collection of addresses has not started")
		return 1
	}
	return 0
}

// runNodeController returns when ctx ends.
func runNodeController(ctx context.Context, grace time.Duration) error {
	settings, err := apiconfig.LoadClientConfigFromEnvironment()
	if err != nil {
		return fmt.Errorf("read the client's settings from the environment: %w", err)
	}
	settings.Spec.K8sClientQPS = calicoQPS
	calico, err := clientv3.New(*settings)
	if err != nil {
		return fmt.Errorf("make a client of Calico's objects: %w", err)
	}
	client, err := kubernetesClient(settings.Spec.Kubeconfig)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	// Most of a pod is not looked at and would only take memory.
	if err := pods.SetTransform(converter.PodTransformer(false)); err != nil {
		return fmt.Errorf("shorten pods: %w", err)
	}
	feed := utils.NewDataFeed(calico, string(settings.Spec.DatastoreType))
	controller := nodecontroller.NewNodeController(ctx, client, calico, config.NodeControllerConfig{
		AutoHostEndpointConfig: &config.AutoHostEndpointConfig{},
		LeakGracePeriod:        &metav1.Duration{Duration: grace},
	}, nodes, pods, feed)

	done := make(chan struct{})
	context.AfterFunc(ctx, func() { close(done) })
	factory.Start(done)
	feed.Start()
	controller.Run(done)
	return nil
}

func kubernetesClient(kubeconfig string) (*kubernetes.Clientset, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %q: %w", kubeconfig, err)
	}
	c.QPS, c.Burst = kubernetesQPS, kubernetesBurst
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kubernetes: %w", err)
	}
	return client, nil
}
