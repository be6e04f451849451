//go:build e2e

package shipped

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/chance"
)

// watchers ask a pod on the worker each second from a master, by address and by name, and write down what came of it.
func watchers(master string) string {
	text := server("worker-1", serviceAddress)
	for name, host := range map[string]string{"by-address": serviceAddress, "by-name": "server"} {
		text += `---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + master + `}
  tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
  containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent, args: [watch, "http://` + host + `/"]}]
`
	}
	return text
}

// late is a pod that is made when a master is gone.
const late = `
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  nodeSelector: {kubernetes.io/hostname: worker-1}
  containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent}]
`

// TestOneOfThreeMastersIsLostWhileAPodServes boots whole masters: kubelet, containerd, kube-proxy and Calico run beside etcd and the
// control plane, which the tests of masters in containers leave out.
func TestOneOfThreeMastersIsLostWhileAPodServes(t *testing.T) {
	c := &cluster{site: newSite(t, "masters", "test/shipped/testdata/masters"), name: "masters", domain: "masters.example"}
	masters := []string{"master-1", "master-2", "master-3"}
	nodes := append(slices.Clone(masters), "worker-1")
	random := rand.New(rand.NewPCG(chance.Seed(t), 0))
	random.Shuffle(len(masters), func(i, j int) { masters[i], masters[j] = masters[j], masters[i] })
	lost, stays := masters[0], masters[1]
	c.steps([]testStep{
		{"the image is built", c.builds},
		{"three masters and a worker are up", func(*testing.T) {
			c.start("--all")
			c.awaitReady(nodes, nodes)
		}},
		{"a pod on the worker serves a master", func(*testing.T) {
			c.apply(watchers(stays))
			c.mustKubectl("wait --for=condition=Ready pod/server pod/by-address pod/by-name --timeout=" + step.String())
			for _, pod := range []string{"by-address", "by-name"} {
				c.within(step, pod+" is served", func() error {
					if ok, bad := c.watched(pod); ok == 0 {
						return fmt.Errorf("%d times it was not", bad)
					}
					return nil
				})
			}
			c.reached("a pod on the worker serves " + stays)
		}},
		{"one master loses power", func(t *testing.T) { c.losesAMaster(t, lost) }},
		{"it comes back", func(*testing.T) {
			c.began = time.Now()
			c.boot("bin/spore boot out --node " + lost + " --json").Running(lost)
			c.mustKubectl("wait --for=condition=Ready node/" + lost + " --timeout=" + step.String())
			c.reached(lost + " is Ready again, since its start,")
		}},
	})
	c.writeTable("masters.md")
}

func (c *cluster) losesAMaster(t *testing.T, lost string) {
	okBefore, badBefore := c.watched("by-address")
	_, badNamesBefore := c.watched("by-name")
	c.must("bin/spore boot out --kill " + lost)
	began := time.Now()
	since := func(what string) { c.row(what, fmt.Sprintf("%.0f s", time.Since(began).Seconds())) }
	c.within(step, "the API answers", func() error {
		_, err := c.kubectl("--request-timeout=10s get nodes")
		return err
	})
	since(lost + " lost power, and the API answers again after")
	c.apply(late)
	c.mustKubectl("wait --for=condition=Ready pod/late --timeout=" + step.String())
	since("a new pod runs after")
	c.within(step, lost+" is taken for dead", func() error {
		state, err := c.kubectl("get node " + lost + ` -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'`)
		if err == nil && state != "Unknown" {
			err = fmt.Errorf("its state is %s", state)
		}
		return err
	})
	since("it is taken for dead after")
	ok, bad := c.watched("by-address")
	_, badNames := c.watched("by-name")
	c.row("meanwhile the pod answered, and did not, by its address", fmt.Sprintf("%d and %d times", ok-okBefore, bad-badBefore))
	c.row("by its name it did not", fmt.Sprintf("%d times", badNames-badNamesBefore))
	require.Greater(t, ok-okBefore, 20)
	require.Equal(t, badBefore, bad, "nothing between the pods was lost")
	got, err := c.in("late", "fetch http://server/")
	require.NoError(t, err)
	require.Equal(t, "hello from server", got)
}

// watched counts what a pod that watches has written down.
func (c *cluster) watched(pod string) (ok, bad int) {
	c.t.Helper()
	for line := range strings.Lines(c.mustKubectl("logs " + pod)) {
		if strings.TrimSpace(line) == "ok" {
			ok++
		} else {
			bad++
		}
	}
	return ok, bad
}
