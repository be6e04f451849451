package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/rendering"
)

func TestWhoRunsPodsAndWhoWritesTheAuditLogSendsThem(t *testing.T) {
	with := func(k *kubernetes.Settings, roles ...string) rendering.Input {
		in := rendering.Input{Cluster: &facts.Cluster{}, Node: &facts.Node{Roles: roles}}
		if k != nil {
			in.Cluster.Services = spec.Services{k}
		}
		return in
	}
	for name, tc := range map[string]struct {
		in          rendering.Input
		pods, audit bool
	}{
		"without Kubernetes":   {with(nil, "kafka-broker"), false, false},
		"a node of other work": {with(&kubernetes.Settings{}, "kafka-broker"), false, false},
		"a worker":             {with(&kubernetes.Settings{}, "kafka-broker", "worker"), true, false},
		"a control plane":      {with(&kubernetes.Settings{}, "control-plane"), true, true},
		"without an audit log": {with(&kubernetes.Settings{Audit: kubernetes.AuditNone}, "control-plane"), true, false},
	} {
		pods, audit := ofKubernetes(tc.in)
		require.Equal(t, []bool{tc.pods, tc.audit}, []bool{pods, audit}, name)
	}
}
