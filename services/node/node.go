// Package node is the list of what only nodes link of the services; a service without anything of its own has no line.
package node

import (
	"maps"

	ceph "spore/services/ceph/node"
	dashboard "spore/services/dashboard/node"
	dns "spore/services/dns/node"
	kafka "spore/services/kafka/node"
	kubernetes "spore/services/kubernetes/node"
	logs "spore/services/logs/node"
	metrics "spore/services/metrics/node"
	mqtt "spore/services/mqtt/node"
	"spore/services/rendering"
)

// Renderings are how the configuration of each program is rendered, by the names of services.List.Programs.
func Renderings() map[string]rendering.Func {
	out := map[string]rendering.Func{}
	for _, of := range []map[string]rendering.Func{
		mqtt.Renderings,
		dns.Renderings,
		kubernetes.Renderings,
		kafka.Renderings,
		ceph.Renderings,
		metrics.Renderings,
		logs.Renderings,
		dashboard.Renderings,
	} {
		maps.Copy(out, of)
	}
	return out
}

// Kept is how what the node keeps of a program is read, by the program's name.
func Kept() map[string]rendering.Kept { return kubernetes.Kept }

// Before is what is to be done before the configuration of a program is written, by the program's name.
func Before() map[string]rendering.Before { return kubernetes.Before }
