package mqtt

import (
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
)

var authorities = []service.AuthorityRow{
	{Name: "mqtt", Kind: service.CA, Title: "Spore MQTT CA", Usage: service.Server},
}

var leaves = []service.LeafRow{
	{Name: "mqtt-server", Authority: "mqtt", Roles: []string{role}, CommonName: "{node}",
		SANs: append([]string{"mqtt.{domain}", "{aliases}"}, service.HostNames...), Usage: service.Server,
		Certificate: "{mqtt-certificate}", Key: "{mqtt-key}"},
}

var secrets = []service.SecretRow{
	{Name: "mqtt-password", Roles: []string{role}, Each: service.OneUser, Entry: "{user-secret}", Form: service.FormPassword, Given: true},
}

// words are the bundle entries that mqtt.yaml names.
var words = map[string]service.Word{
	"{mqtt-certificate}": func(c *facts.Cluster, _ *facts.Node) []string { return []string{tls(c).Certificate.SecretRef} },
	"{mqtt-key}":         func(c *facts.Cluster, _ *facts.Node) []string { return []string{tls(c).Key.SecretRef} },
}

func tls(c *facts.Cluster) TLS {
	if s := Of(c.Services); s != nil {
		return s.TLS
	}
	return TLS{}
}

func userSecrets(s spec.Services) []string {
	var out []string
	if m := Of(s); m != nil {
		for _, u := range m.Users {
			out = append(out, u.Password.SecretRef)
		}
	}
	return out
}
