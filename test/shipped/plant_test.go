//go:build e2e

package shipped

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// onTheBroker is a pod that may run on the machine with Kafka, which the node's file keeps others away from.
const onTheBroker = `
apiVersion: v1
kind: Pod
metadata: {name: gateway}
spec:
  nodeSelector: {kubernetes.io/hostname: kafka-01}
  tolerations: [{key: hall.example/broker, operator: Exists}]
  containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent}]
`

// TestAMachineWithKafkaRunsPods boots the broker of examples/plant, which is a worker too, beside the master.
func TestAMachineWithKafkaRunsPods(t *testing.T) {
	c := &cluster{site: newSite(t, "plant", "examples/plant"), name: "hall", domain: "hall.example"}
	c.steps([]testStep{
		{"the image is built", c.builds},
		{"the master and the broker are up", func(t *testing.T) {
			c.start("--node master-01,kafka-01")
			c.awaitReady([]string{"master-01", "kafka-01"}, []string{"kafka-01", "master-01"})
		}},
		{"a pod runs on the broker's machine", func(t *testing.T) {
			c.apply(onTheBroker)
			c.mustKubectl("wait --for=condition=Ready pod/gateway --timeout=" + step.String())
			require.Equal(t, "kafka-01", c.mustKubectl("get pod gateway -o 'jsonpath={.spec.nodeName}'"))
			c.reached("a pod runs on the broker's machine")
		}},
		{"Kafka takes and gives records beside it", c.streams},
	})
	c.writeTable("plant.md")
}
