// Package mqtt is the service mqtt: an MQTT broker, mosquitto.
package mqtt

import (
	"strconv"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "mqtt"

// role is what a broker is.
const role = "mqtt-broker"

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Choices:  map[string][]string{"ACL.access": accesses},
		Port:     port,
		Roles: []service.Role{
			{Name: role, Target: "mqtt.target", Programs: []string{"mosquitto"}},
		},
		Programs: []service.Program{
			{Name: "mosquitto", Unit: "mosquitto.service", Packages: []string{"mosquitto"}, User: "mosquitto", NeedsSecrets: true,
				Ports: []service.Port{service.TCP(DefaultPort, "MQTT").Set(settingPort)}},
		},
		Authorities: authorities,
		Leaves:      leaves,
		Secrets:     secrets,
		Words:       words,
		UserSecrets: userSecrets,
		Debian: []service.Debian{{
			Package: "mosquitto",
			Drop:    []service.Drop{{Path: "/etc/mosquitto/*.example", Why: "documentation; one has verifiers of passwords"}},
		}},
		Renewal: []service.Renewal{
			{Program: "mosquitto", Leaves: service.Signals, Signal: "HUP"}, // net.c, net__load_certificates
		},
		Data:        data,
		Live:        []service.Live{{Path: "services." + Name + ".", Units: []string{"mosquitto.service"}}},
		Memory:      map[string]service.Memory{role: service.MiB(128)},
		Environment: map[string]service.Variables{"mosquitto": variables},
	}
}

// accesses are what an ACL can say.
var accesses = []string{"read", "write", "readwrite", "deny"}

// settingPort is the port of mqtt.yaml.
const settingPort = Name + ".port"

func port(s spec.Services, _ string) int { return Of(s).ListenPort() }

func variables(c *facts.Cluster, _ *facts.Node, _ uint64) map[string]string {
	return map[string]string{"MQTT_PORT": strconv.Itoa(Of(c.Services).ListenPort())}
}
